# frozen_string_literal: true

require "active_record"
require "securerandom"
require "socket"
require_relative "../outbox"
require_relative "../runtime/clock"
require_relative "connections"

module Pelton
  module Outbox
    # The right to relay: one process has it at a time. On PostgreSQL and MySQL it is an advisory lock, which ends with
    # the database connection. Elsewhere (SQLite) it is a lease in the table pelton_outbox_relays.
    #   lock = Locks.for(Row.connection)
    #   relay if lock.acquire
    module Locks
      CHANNEL = "pelton_outbox"
      private_constant :CHANNEL

      # The row of pelton_outbox_relays. Its transactional id is that of the relay's producer, so a relay that takes
      # over fences the one before it.
      class RelayRow < ::ActiveRecord::Base
        self.table_name = "pelton_outbox_relays"
        NAME = "default"
        private_constant :NAME

        # The only row. Made by the first relay.
        #: () -> RelayRow
        def self.only
          Connections.lend do
            find_by(name: NAME) || begin
              insert_all([{ name: NAME, transactional_id: "pelton.outbox.#{SecureRandom.uuid}" }])
              find_by!(name: NAME)
            end
          end
        end
      end

      module_function

      # The lock for this kind of database. One thread uses it, and only with this connection.
      #: (untyped) -> (Lease | Postgres | MySQL)
      def for(connection)
        case connection.adapter_name
        when /\Apost(gres|gis)/i then Postgres.new(connection)
        when /mysql|trilogy/i then MySQL.new(connection)
        else Lease.new(connection)
        end
      end

      # Wakes the relay when this transaction is committed, where the database can do that.
      #: (untyped) -> void
      def notify(connection)
        connection.execute("NOTIFY #{CHANNEL}") if connection.adapter_name.match?(/\Apost(gres|gis)/i)
      end

      # An advisory lock of PostgreSQL. The backend's number tells whether the connection is still the one that has it,
      # because Active Record may reconnect by itself.
      class Postgres
        # Two numbers, so that other uses of advisory locks do not meet it.
        KEY = "1885693038, 1869968248"
        # Seconds between two looks whether to stop.
        LOOK = 1
        private_constant :KEY, :LOOK

        #: (untyped) -> void
        def initialize(connection)
          @connection = connection
          @backend = nil
        end

        #: () -> bool
        def acquire
          return false unless @connection.select_value("SELECT pg_try_advisory_lock(#{KEY})")

          @backend = backend
          @connection.execute("LISTEN #{CHANNEL}")
          true
        rescue ::ActiveRecord::ActiveRecordError
          @connection.disconnect! # the lock ends with its session; no relay would ever get it
          raise
        end

        #: () -> bool
        def held? = @backend == backend

        # Waits for a NOTIFY, but not longer than this many seconds, or about a second longer than until a stop.
        #: (Numeric, Background::Stop) -> void
        def wait(seconds, stop)
          raw = @connection.raw_connection
          deadline = Clock.deadline(seconds)
          told = nil
          told = raw.wait_for_notify([Clock.left(deadline), LOOK].min) until told || stop.stop? || over?(deadline)
          nil while raw.notifies
        end

        #: () -> void
        def release
          @connection.execute("UNLISTEN #{CHANNEL}")
          @connection.select_value("SELECT pg_advisory_unlock(#{KEY})")
        end

        private

        def over?(deadline) = Clock.left(deadline).zero?
        def backend = @connection.select_value("SELECT pg_backend_pid()")
      end

      # A named lock of MySQL or MariaDB. It is the server's, so its name has the database's.
      class MySQL
        LONGEST = 64
        private_constant :LONGEST

        #: (untyped) -> void
        def initialize(connection)
          @connection = connection
          @name = connection.quote("pelton.#{connection.select_value("SELECT DATABASE()")}"[0, LONGEST])
        end

        #: () -> bool
        def acquire = @connection.select_value("SELECT GET_LOCK(#{@name}, 0)") == 1
        #: () -> bool
        def held? = @connection.select_value("SELECT IS_USED_LOCK(#{@name}) = CONNECTION_ID()") == 1
        #: (Numeric, Background::Stop) -> void
        def wait(seconds, stop) = stop.wait(seconds)
        #: () -> void
        def release = @connection.select_value("SELECT RELEASE_LOCK(#{@name})")
      end

      # A lease in the database: it ends some seconds after the last renewal.
      class Lease
        # Seconds.
        LENGTH = 10
        private_constant :LENGTH

        #: (untyped) -> void
        def initialize(_connection)
          @holder = "#{Socket.gethostname}/#{Process.pid}/#{SecureRandom.hex(4)}"
          # When it was renewed last (monotonic seconds).
          @renewed = nil
        end

        #: () -> bool
        def acquire
          RelayRow.only
          renew("holder IS NULL OR held_until < :now OR holder = :holder")
        end

        #: () -> bool
        def held? = Clock.now - @renewed < LENGTH / 3.0 || renew("holder = :holder")
        #: (Numeric, Background::Stop) -> void
        def wait(seconds, stop) = stop.wait(seconds)
        #: () -> void
        def release = update("holder = :holder", holder: nil, held_until: nil)

        private

        def renew(condition)
          now = Clock.now
          time = Time.now.utc
          changed = update(condition, now: time, holder: @holder, held_until: time + LENGTH)
          @renewed = now
          changed == 1
        end

        # Returns the number of rows that were changed: 1 or 0.
        def update(condition, now: nil, **columns)
          Connections.lend { RelayRow.where(condition, now: now, holder: @holder).update_all(columns) }
        end
      end
    end
  end
end
