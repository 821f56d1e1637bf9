# frozen_string_literal: true

module Pelton
  class CLI
    class Doctor
      # The connections of Active Record, if the app uses it: each worker needs one while it runs a job.
      class Database
        #: (Config) -> void
        def initialize(config)
          @config = config
        end

        #: (Report) -> void
        def examine(report)
          pool = defined?(::ActiveRecord::Base) && size
          return unless pool

          report.add("database", { "connections in the pool" => pool, "workers" => @config.concurrency })
          return if pool >= @config.concurrency

          report.warning("database", "the pool has #{pool} connections for #{@config.concurrency} workers, so jobs " \
                                     "wait for each other and may fail with ActiveRecord::ConnectionTimeoutError: " \
                                     "set `pool` in database.yml to #{@config.concurrency} or more")
        end

        private

        # nil: the app has no database.
        def size
          ::ActiveRecord::Base.connection_pool.size
        rescue ::ActiveRecord::ActiveRecordError
          nil
        end
      end
    end
  end
end
