# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings"
require_relative "../backoff"
require_relative "../consumer"
require_relative "pattern"

module Pelton
  class Routing
    # One topic of one group, or all topics that a pattern matches: its name, its consumer, its settings. Frozen.
    class Topic
      # Before a message goes to dead letters, if the topic does not say.
      RETRIES = 3

      # name: of a pattern, its source. pattern: nil for one topic.
      attr_reader :name, :pattern

      #: ((String | Regexp), (Class | String), Hash[Symbol, untyped]) -> void
      def initialize(name, consumer, settings)
        @given = name
        @pattern = Pattern.new(name) if name.is_a?(Regexp)
        @name = @pattern ? name.source.dup.freeze : checked(name)
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
      def with_defaults(config) = batch ? self : Topic.new(@given, @consumer, { **@settings, batch: config.batch })

      # The route of one topic that the pattern matches.
      #: (String) -> Topic
      def named(name) = @pattern ? Topic.new(name, @consumer, @settings) : self

      #: (String) -> bool
      def match?(name) = @pattern ? @pattern.match?(name) : name == @name

      # What a subscription is told.
      #: () -> String
      def to_s = @pattern ? @pattern.to_s : @name

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

      def inspect = "#<#{self.class} #{@pattern ? @pattern.inspect : @name} to #{@consumer}>"

      private

      def look_up
        Object.const_get(@consumer)
      rescue NameError => e
        raise ConfigError.new("topic #{@name}, to", @consumer, e.message)
      end

      def checked(name)
        allowed, test, convert = Settings::TYPES.fetch(:name)
        test.call(name) ? convert.call(name) : raise(ConfigError.new("topic", name, "expected #{allowed}, or a Regexp"))
      end

      def check
        if dead_letters && self.then == :skip
          raise ConfigError.new("topic #{@name}: then", :skip, "the last retry leads to dead_letters already")
        end
        if pattern && dead_letters && match?(dead_letters)
          raise ConfigError.new("topic #{@name}: dead_letters", dead_letters, "is matched by the pattern itself")
        end
        return if @consumer.is_a?(Class) || (@consumer.is_a?(String) && !@consumer.empty?)

        raise ConfigError.new("topic #{@name}, to", @consumer, "expected a consumer class or its name")
      end
    end
  end
end
