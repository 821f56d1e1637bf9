# frozen_string_literal: true

require "active_support/core_ext/time/zones"
require "active_support/i18n"

module Pelton
  class Railtie < ::Rails::Railtie
    # `config.reloader` of a Rails app: each job of a worker is to Rails what a request is. The reloader returns
    # database connections, switches the query cache on, resets CurrentAttributes, and, from Rails 7.0 on, reports
    # errors to `Rails.error`. In development it loads changed code first. The time zone and the locale are the app's
    # defaults again, and log lines are tagged with the partition.
    #
    # If config.on_error is an error tracker, Rails does not see the errors: its report would come first, without
    # offset, attempt and failure_id, and trackers ignore a second report of one error.
    class Jobs
      #: (::Rails::Application) -> void
      def initialize(app)
        @reloader = app.reloader
        # What `wrap` accepts differs: Rails 7.1 and later take the source of errors.
        @options = @reloader.method(:wrap).parameters.any? { |kind, _| kind == :keyrest } ? { source: "pelton" } : {}
      end

      # job: { group: "shop", topic: "orders", partition: 0, kind: :consume }. On a worker's thread.
      #: (Hash[Symbol, untyped]) { () -> void } -> void
      def call(job, &work)
        error = nil
        result = @reloader.wrap(**@options) do
          ActiveSupport::ExecutionContext.set(**job) if defined?(ActiveSupport::ExecutionContext)
          Time.use_zone(Time.zone_default) { I18n.with_locale(I18n.default_locale) { tagged(job, &work) } }
        rescue StandardError => e
          raise unless tracked?

          error = e
        end
        error ? raise(error) : result
      end

      private

      # The railtie serves the default app.
      def tracked? = defined?(Reporters::Errors) && Pelton.config.on_error.is_a?(Reporters::Errors)

      # Not `tagged` with a block: ActiveSupport::BroadcastLogger (Rails 7.1) calls the block once per logger.
      def tagged(job)
        logger = ::Rails.logger
        return yield unless logger.respond_to?(:push_tags)

        tags = ["pelton", "#{job[:topic]}/#{job[:partition]}"]
        begin
          logger.push_tags(*tags)
          yield
        ensure
          logger.pop_tags(tags.size)
        end
      end
    end
  end
end
