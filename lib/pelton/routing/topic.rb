# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings"
require_relative "../backoff"
require_relative "../consumer"

module Pelton
  class Routing
    # One topic of one group: its name, its consumer, its settings. Frozen.
    class Topic
      # Before a message goes to dead letters, if the topic does not say.
      RETRIES = 3

      attr_reader :name

      #: (String, (Class | String), Hash[Symbol, untyped]) -> void
      def initialize(name, consumer, settings)
        @name = Settings::TYPES.fetch(:name)[1].call(name) ? name.dup.freeze : raise(invalid_name(name))
        @consumer = consumer
        @settings = { **Settings::TOPIC.defaults, **settings }.freeze
        check
        freeze
      end

      (Settings::TOPIC.names - [:retries]).each { |key| define_method(key) { @settings.fetch(key) } }

      # Without a number, dead letters would never come.
      #: () -> Integer?
      def retries = @settings.fetch(:retries) || (RETRIES if dead_letters)

      # nil: at most `batch` is config.batch.
      #: (Config) -> Topic
      def with_defaults(config) = batch ? self : Topic.new(@name, @consumer, @settings.merge(batch: config.batch))

      # The class, looked up anew each time if it was given by name (so code may be reloaded). Raises ConfigError.
      #: () -> Class
      def consumer_class
        found = @consumer.is_a?(String) ? look_up : @consumer
        consumer = found.is_a?(Class) && found <= Consumer
        return found if consumer && found.instance_method(:consume).owner != Consumer

        reason = consumer ? "has no method consume" : "is not a subclass of Pelton::Consumer"
        raise ConfigError.new("topic #{@name}, to", found, reason)
      end

      #: () -> Backoff
      def back_off = Backoff.new(backoff.begin, backoff.end)

      def inspect = "#<#{self.class} #{@name} to #{@consumer}>"

      private

      def look_up
        Object.const_get(@consumer)
      rescue NameError => e
        raise ConfigError.new("topic #{@name}, to", @consumer, e.message)
      end

      def invalid_name(name) = ConfigError.new("topic", name, "expected #{Settings::TYPES.fetch(:name).first}")

      def check
        if dead_letters && self.then == :skip
          raise ConfigError.new("topic #{@name}: then", :skip, "the last retry leads to dead_letters already")
        end
        return if @consumer.is_a?(Class) || (@consumer.is_a?(String) && !@consumer.empty?)

        raise ConfigError.new("topic #{@name}, to", @consumer, "expected a consumer class or its name")
      end
    end
  end
end
