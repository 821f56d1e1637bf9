# frozen_string_literal: true

require_relative "../errors"

module Pelton
  module Reporters
    # Sends failures to an error tracker, for config.on_error:
    #   require "pelton/reporters/errors"
    #   Pelton.configure { |config| config.on_error = Pelton::Reporters::Errors.new(:sentry) }
    # Failures of one consumer are one group: by source, group, topic and class of the error. Those of its retry topics
    # belong to its topic. Each has topic, partition, offset, attempt and failure_id where they are known, never a
    # payload. Thread-safe as the tracker's client is.
    class Errors
      TRACKERS = %i[sentry honeybadger bugsnag rollbar appsignal rails].freeze
      CONSTANTS = { sentry: "Sentry", honeybadger: "Honeybadger", bugsnag: "Bugsnag", rollbar: "Rollbar",
                    appsignal: "Appsignal", rails: "Rails" }.freeze
      # Values that are few, so that a tracker can search by them.
      TAGS = %i[source group topic client].freeze
      private_constant :CONSTANTS, :TAGS

      # tracker: one of TRACKERS. client: what to call, if it is not the tracker's module. Raises ConfigError for an
      # unknown tracker, if its gem is not loaded, or for :rails before Rails 7.0.
      #: (Symbol, ?client: untyped) -> void
      def initialize(tracker, client: nil)
        raise ConfigError.unknown(tracker, TRACKERS, what: "error tracker") unless TRACKERS.include?(tracker)

        @tracker = tracker
        @client = client || loaded(CONSTANTS.fetch(tracker))
        return unless tracker == :rails && !@client.respond_to?(:error)

        raise ConfigError.new("error tracker", tracker, "Rails.error exists from Rails 7.0 on")
      end

      # Reports one failure. context: the values of error.occurred without the error.
      #   errors.call(error, { source: "consumer", topic: "orders" })
      #: (Exception, Hash[Symbol, untyped]) -> void
      def call(error, context) = send(@tracker, error, context)

      def inspect = "#<#{self.class} #{@tracker}>"

      private

      def loaded(name)
        return Object.const_get(name) if Object.const_defined?(name)

        raise ConfigError.new("error tracker", @tracker, "its gem is not loaded: there is no constant #{name}")
      end

      def tags(context) = context.slice(*TAGS).transform_values(&:to_s)

      # A retry topic counts as its main topic.
      def origin(context)
        [context[:source], context[:group], context[:topic]&.sub(Routing::Topic::RETRY_SUFFIX, "")].compact
      end

      def group(error, context) = [*origin(context), error.class.name.to_s]

      def sentry(error, context)
        @client.capture_exception(error, tags: tags(context), contexts: { pelton: context },
                                         fingerprint: group(error, context))
      end

      # Without a cause, Honeybadger takes the error that is being rescued: this one.
      def honeybadger(error, context)
        @client.notify(error, context: context, component: context[:topic], action: context[:source],
                              cause: error.cause, fingerprint: group(error, context).join("|"))
      end

      # Before version 6.23, events have no add_metadata: such an event has the rest.
      def bugsnag(error, context)
        @client.notify(error) do |event|
          event.severity = "error"
          event.context = origin(context).join(" ")
          event.grouping_hash = group(error, context).join("|")
          event.add_metadata(:pelton, context)
        end
      end

      # Filters of errors apply, as in Rollbar's own integrations.
      def rollbar(error, context)
        scope = { fingerprint: group(error, context).join("|"), context: origin(context).join(" ") }
        @client.scope(scope).error(error, { pelton: context, use_exception_level_filters: true })
      end

      # Early versions 3 have only send_error. AppSignal groups by namespace, action and class.
      def appsignal(error, context)
        report = @client.respond_to?(:report_error) ? :report_error : :send_error
        @client.public_send(report, error) do |transaction|
          transaction.set_namespace("background_job")
          transaction.set_action(origin(context).join(" "))
          transaction.set_tags(context)
        end
      end

      # Rails 7.0 knows no source.
      def rails(error, context)
        reporter = @client.error
        known = reporter.method(:report).parameters.any? { |kind, name| kind == :keyrest || name == :source }
        source = known ? { source: "pelton" } : {}
        reporter.report(error, handled: false, severity: :error, context: context, **source)
      end
    end
  end
end
