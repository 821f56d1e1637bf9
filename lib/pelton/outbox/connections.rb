# frozen_string_literal: true

require "active_record"

module Pelton
  module Outbox
    # Database connections for Pelton's own threads. When Rails reloads code, it waits for the threads that run in its
    # executor, and then takes away the connections that others have of a pool.
    module Connections
      module_function

      # Runs the block, then gives the connections that it used back to their pools. In a Rails app it runs in the
      # executor, so no code is reloaded meanwhile.
      #: () { () -> untyped } -> untyped
      def lend(&block)
        app = ::Rails.application if defined?(::Rails.application)
        app ? app.executor.wrap(&block) : ::ActiveRecord::Base.connection_pool.with_connection(&block)
      end

      # Yields a connection that is in no pool, so it may be kept for long. Closes it at the end.
      #: () { (untyped) -> void } -> void
      def own
        pool = ::ActiveRecord::Base.connection_pool
        connection = pool.checkout
        pool.remove(connection)
        yield connection
      ensure
        connection&.disconnect!
      end
    end
  end
end
