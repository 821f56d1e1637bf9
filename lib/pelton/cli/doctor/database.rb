# frozen_string_literal: true

require "timeout"

module Pelton
  class CLI
    class Doctor
      # The connections of Active Record, if the app uses it. Each worker needs one of each database that its job uses.
      # Pelton's own threads need one of the default database. All processes share what the database server allows.
      class Database
        # How a server tells its limit: {adapter => query}
        LIMITS = { "PostgreSQL" => "SHOW max_connections", "Mysql2" => "SELECT @@max_connections",
                   "Trilogy" => "SELECT @@max_connections" }.freeze
        # Threads of Outbox.relay_with_server and Inbox.prune_with_server.
        THREADS = %w[outbox inbox].freeze
        private_constant :LIMITS, :THREADS

        # threads: names of the app's background threads. processes: how many share the database. timeout: seconds to
        # wait for it; nil: it is not asked.
        #: (Config, ?threads: Array[String], ?processes: Integer, ?timeout: Numeric?) -> void
        def initialize(config, threads: [], processes: 1, timeout: nil)
          @workers = config.concurrency
          @threads = THREADS & threads
          @processes = processes
          @timeout = timeout
        end

        #: (Report) -> void
        def examine(report)
          pools = defined?(::ActiveRecord::Base) ? sizes : {}
          return if pools.empty?

          limit = limit(report)
          facts = { **facts(pools), "workers" => @workers, "other threads" => (@threads.join(", ") if @threads.any?),
                                    "processes" => (@processes if @processes > 1),
                                    "connections that the server allows" => limit }
          report.add("database", facts.compact)
          check_pools(report, pools)
          check_limit(report, pools.values.first, limit) if limit
        end

        private

        # {"primary" => 5, "animals" => 3}: of the databases of this environment, the default one first; empty: the app
        # has none.
        def sizes
          base = ::ActiveRecord::Base
          all = base.respond_to?(:configurations) ? base.configurations.configs_for(env_name: environment) : []
          sizes = all.to_h do |database|
            [database.name, database.respond_to?(:max_connections) ? database.max_connections : database.pool]
          end
          sizes.empty? ? { "primary" => base.connection_pool.size } : sizes.compact
        rescue ::ActiveRecord::ActiveRecordError
          {}
        end

        def environment = ::ActiveRecord::ConnectionHandling::DEFAULT_ENV.call

        def facts(pools)
          pools.transform_keys { |name| "connections in the pool#{" of #{name}" if pools.size > 1}" }
        end

        # Of the default database; nil: not asked, or it has none, as SQLite.
        def limit(report)
          return unless @timeout

          Timeout.timeout(@timeout) do
            ::ActiveRecord::Base.connection_pool.with_connection do |connection|
              query = LIMITS[connection.adapter_name]
              query && connection.select_value(query).to_i
            end
          end
        rescue ::ActiveRecord::ActiveRecordError, Timeout::Error => e
          report.note("database", "does not answer: #{e.message}")
          nil
        end

        def check_pools(report, pools)
          pools.each_with_index do |(name, size), index|
            check_pool(report, pools.size > 1 ? " of #{name}" : "", size, index.zero? ? @threads : [])
          end
        end

        def check_pool(report, name, size, threads)
          needed = @workers + threads.size
          return if size >= needed

          users = ["#{@workers} workers", *threads.map { |thread| "the thread \"#{thread}\"" }].join(" and ")
          report.warning("database", "the pool#{name} has #{size} connections for #{users}, so jobs wait for each " \
                                     "other and may fail with ActiveRecord::ConnectionTimeoutError: set `pool` in " \
                                     "database.yml to #{needed} or more")
        end

        def check_limit(report, size, limit)
          beside = @threads.count("outbox") # for the lock of its relay
          all = (size + beside) * @processes
          return if all <= limit

          pools = "a pool of #{size}#{" and one for the outbox" if beside.positive?}"
          report.warning("database", "#{@processes} process#{"es" if @processes > 1} with #{pools} may open #{all} " \
                                     "connections, and the server allows #{limit} for all its clients: lower " \
                                     "`pool` or --processes, or raise max_connections")
        end
      end
    end
  end
end
