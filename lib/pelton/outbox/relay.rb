# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../settings/types"
require_relative "connections"
require_relative "locks"
require_relative "session"
require_relative "row"

module Pelton
  module Outbox
    # Sends the rows of the outbox to Kafka and deletes them when Kafka has them. Any number of relays may run, in any
    # number of processes: Locks lets one of them work. It uses one producer, one database connection of its own for
    # the lock, and for each step one of the pool. An error ends `run`, and so the lock; Background starts it again.
    class Relay
      # Seconds between two attempts to become the one that works.
      STAND_BY = 1
      BATCH = Settings::Setting.new(:batch, :count, 500, "")
      POLL = Settings::Setting.new(:poll, :positive_seconds, 0.5, "")
      # Errors of a message that several messages may share, because they were in one request.
      SHARED = %i[MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD].freeze
      private_constant :STAND_BY, :BATCH, :POLL, :SHARED

      #: (App, batch: Integer, poll: Numeric) -> void
      def initialize(app, batch:, poll:)
        @app = app
        @bus = app.notifications
        @batch = BATCH.check(batch)
        @poll = POLL.check(poll)
        # Most rows of the next transaction.
        @limit = @batch
        @measured = nil
        # When the loop came by last, in monotonic seconds. nil: it does not run, or waits with a limit of its own.
        # Written by its thread only.
        @turned_at = nil
        # Of the last `run`.
        @stop = nil
      end

      # Works until `stop` is asked.
      #: (Background::Stop) -> void
      def run(stop)
        @stop = stop
        @turned_at = Clock.now
        Connections.own do |connection|
          lock = Locks.for(connection)
          until stop.stop?
            lead(lock, connection, stop)
            waiting { stop.wait(STAND_BY) }
          end
        end
      ensure
        @turned_at = nil # after an error, Background starts it again
      end

      # For Liveness: the problem that only a restart of the process would solve, a call that hangs. The absence of
      # Kafka or of the database, and another relay that works, are none. From any thread.
      #: () -> Array[String]
      def health_problems
        turned_at = @turned_at or return []
        seconds = Clock.now - turned_at
        gap = @app.config.liveness.max_poll_gap
        return [] if seconds <= gap

        [format("outbox: its relay has hung for %.0f s, for example in a database call (liveness.max_poll_gap: %g s)",
                seconds, gap)]
      end

      # For Liveness, as Server#status. From any thread.
      #: () -> Symbol
      def status = @stop&.stop? ? :stopping : :running

      private

      # Runs the block, which waits for Kafka, for rows or for the lock. Each of these has a limit of its own.
      def waiting
        @turned_at = nil
        yield
      ensure
        @turned_at = Clock.now
      end

      # Asked while it waits for Kafka.
      def go_on?(lock, stop)
        @turned_at = Clock.now
        !stop.stop? && lock.held?
      ensure
        @turned_at = nil
      end

      # Works while it has the lock.
      def lead(lock, connection, stop)
        return unless lock.acquire

        begin
          @bus.publish("outbox.relaying", process: Process.pid)
          @measured = nil # the metrics forgot it at the last outbox.released
          measure # before `relay`, which waits until Kafka answers
          relay(lock, stop)
        ensure
          @bus.publish("outbox.released", process: Process.pid)
          release(lock, connection)
        end
      end

      # The end of a connection frees an advisory lock.
      def release(lock, connection)
        lock.release
      rescue ::ActiveRecord::ActiveRecordError
        connection.disconnect!
      end

      def relay(lock, stop)
        id = Locks::RelayRow.only.transactional_id
        session = waiting { Session.new(@app, id) }
        while !stop.stop? && lock.held?
          measure
          waiting { lock.wait(@poll, stop) } if pass(session) { go_on?(lock, stop) }.zero?
        end
      ensure
        session&.close
      end

      # Sends one batch, unless the block returns false meanwhile. Returns how many rows it dealt with.
      def pass(session, &go_on)
        rows = Connections.lend { Row.due(@limit) }
        return 0 if rows.empty?

        started = Clock.now
        refused = waiting { session.publish(rows, &go_on) }
        return 0 if refused.nil?

        Connections.lend { refused.empty? ? published(rows, started) : refused(rows, refused) }
        rows.size
      end

      def published(rows, started)
        Row.where(id: rows.map(&:id)).delete_all
        @limit = [@limit * 2, @batch].min
        @bus.publish("outbox.published", count: rows.size, seconds: Clock.now - started)
      end

      # Nothing of the batch was sent. A request that is refused as a whole does not say which row is to blame, so a
      # smaller batch is next.
      def refused(rows, refused)
        return @limit = [rows.size / 2, 1].max if refused.size > 1 && refused.each_value.any? { |e| shared?(e) }

        refused.each do |row, error|
          pause = row.refuse(error)
          @bus.publish("outbox.refused", id: row.id, topic: row.topic, error: error, attempts: row.attempts,
                                         due_in: pause)
        end
      end

      def shared?(error) = error.is_a?(KafkaError) && SHARED.include?(error.name)

      def measure
        return unless @bus.wanted?("outbox.measured")
        return if @measured && Clock.now - @measured < @app.config.stats_interval

        @measured = Clock.now
        @bus.publish("outbox.measured", **Connections.lend { Row.measure })
      end
    end
  end
end
