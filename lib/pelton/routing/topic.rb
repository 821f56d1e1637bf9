# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"
require_relative "../runtime/backoff"
require_relative "../consumer"
require_relative "condition"
require_relative "consumer_methods"
require_relative "pattern"

module Pelton
  autoload :Parallel, File.expand_path("../decoding/parallel/parallel", __dir__)

  class Routing
    # The route of one topic of one group, or of all topics that a pattern matches: name, consumer class and settings.
    # Frozen.
    class Topic
      # What a retry topic belongs to. main: the topic whose failed messages it keeps, "orders"; index: which of its
      # delays, from 0; group: the group whose messages it keeps.
      RetryStage = Struct.new(:main, :index, :group)
      # What the name of a retry topic has after that of its main topic: "orders.retry.10", "orders.retry.0.5".
      RETRY_SUFFIX = /\.retry\.\d+(?:\.\d+)?\z/

      # The default of `retries` for topics with dead letters.
      RETRIES = 3

      # name: "orders"; for a pattern, its source. pattern: nil for one topic. stage: nil if it is no retry topic.
      attr_reader :name, :pattern, :stage

      #: ((String | Regexp), (Class | String), Hash[Symbol, untyped], ?stage: RetryStage?) -> void
      def initialize(name, consumer, settings, stage: nil)
        @given = name
        @pattern = Pattern.new(name) if name.is_a?(Regexp)
        @name = @pattern ? name.source.dup.freeze : checked(name)
        @consumer = consumer
        @stage = stage&.freeze
        @settings = { **Settings::TOPIC.defaults, **settings }.freeze
        check
        freeze
      end

      (Settings::TOPIC.names - [:retries]).each { |key| define_method(key) { @settings.fetch(key) } }

      # nil: no limit. Topics with retry topics or dead letters have a default, or no message would ever get there.
      #: () -> Integer?
      def retries
        given = @settings.fetch(:retries) || (retry_in ? 0 : (RETRIES if dead_letters))
        given unless given == :unlimited
      end

      # The routes of its retry topics, with the same consumer, for this group. They run one message at a time, because
      # each message has a due time of its own, and each once, because then it goes to the next topic. Filters are not
      # asked again.
      #: (String) -> Array[Topic]
      def stages(group)
        settings = @settings.merge(max_messages: 1, retries: 0, delay: nil, concurrency: 1, tick_every: nil,
                                   where: nil, filters: [], expire_after: nil)
        [*retry_in, *drain].map do |seconds|
          Topic.new(retry_name(seconds), @consumer, settings, stage: RetryStage.new(@name, index_of(seconds), group))
        end
      end

      # true: this is the name of one of its retry topics, with any delay.
      #: (String) -> bool
      def retry_topic?(name) = name.match?(RETRY_SUFFIX) && name.sub(RETRY_SUFFIX, "") == @name

      # The topic that a failed message goes to next, and its delay in seconds; nil: there is no further retry topic.
      #: () -> [String, Numeric]?
      def next_stage
        seconds = retry_in && retry_in[stage ? stage.index + 1 : 0]
        seconds && [retry_name(seconds), seconds]
      end

      # Number of retry topics that a message that fails here may still go through.
      #: () -> Integer
      def stages_left = Array(retry_in).size - (stage ? stage.index + 1 : 0)

      # The topics that its dead letters may go to.
      #: () -> Array[String]
      def dead_letter_topics = [*dead_letters, *other_dead_letters].uniq

      # Why it may keep messages from consume: the reasons of message.dropped.
      #: () -> Array[Symbol]
      def drop_reasons
        steps = { where: where, filtered: filters.any?, expired: expire_after, of_another_group: stage }
        steps.filter_map { |reason, step| reason if step }
      end

      # true: order per key, not per partition.
      #: () -> bool
      def keyed? = concurrency > 1

      # The same route with the config's `max_messages` and `long_call`, unless it has its own.
      #: (Config) -> Topic
      def with_defaults(config)
        return self if max_messages && long_call

        common = { max_messages: config.max_messages, long_call: config.long_call }
        Topic.new(@given, @consumer, @settings.merge(common) { |_, own, other| own || other }, stage: @stage)
      end

      # The route of one topic that the pattern matches, with that topic's name.
      #: (String) -> Topic
      def named(name) = @pattern ? Topic.new(name, @consumer, @settings) : self

      #: (String) -> bool
      def match?(name) = @pattern ? @pattern.match?(name) : name == @name

      # The name or pattern for a subscription.
      #: () -> String
      def to_s = @pattern ? @pattern.to_s : @name

      # The consumer class. It is looked up by its name at each call, so code may be reloaded. Raises ConfigError.
      #: () -> Class
      def consumer_class
        found = @consumer.is_a?(String) ? look_up : newest(@consumer)
        reason = "is not a subclass of Pelton::Consumer" unless found.is_a?(Class) && found <= Consumer
        reason ||= ConsumerMethods.fault(found, ticks: !tick_every.nil?)
        reason ? raise(ConfigError.new("topic #{@name}, to", found, reason)) : found
      end

      # The types of the fields, for `decode :avro` with a schema; nil: they are not known.
      #: () -> Avro::FieldTypes?
      def field_types
        schema = decode[:decoder].value_schema if Formats.name(decode) == :avro
        schema && Avro::FieldTypes.new(schema)
      end

      # true: the consumer defines `reached_end`.
      #: () -> bool
      def reached_end? = consumer_class.instance_method(:reached_end).owner != Consumer

      #: () -> Backoff
      def back_off = Backoff.new(backoff.begin, backoff.end)

      def inspect = "#<#{self.class} #{@pattern ? @pattern.inspect : @name} to #{@consumer}>"

      private

      # The class that has this one's name now; the same one, unless code was reloaded.
      def newest(given)
        name = given.name
        found = Object.const_get(name) if name && Object.const_defined?(name)
        found.is_a?(Class) && found <= Consumer ? found : given
      end

      def look_up
        Object.const_get(@consumer)
      rescue NameError => e
        reason = e.message[/.*/] # without Ruby's excerpt
        near = ConsumerMethods.named(@consumer) || constant_near(e)
        raise ConfigError.new("topic #{@name}, to", @consumer, near ? "#{reason}, did you mean #{near}?" : reason)
      end

      # A constant that is not loaded yet, for example because Rails loads it when it is used.
      def constant_near(error)
        outer = error.receiver
        near = ConfigError.near(error.name, outer.constants) if outer.is_a?(Module)
        near && (outer == Object ? near : "#{outer}::#{near}")
      end

      def checked(name)
        allowed, test, convert = Settings::TYPES.fetch(:name)
        test.call(name) ? convert.call(name) : raise(ConfigError.new("topic", name, "expected #{allowed}, or a Regexp"))
      end

      # For a drained delay: the index of the longest delay below it.
      def index_of(seconds) = Array(retry_in).count { |delay| delay <= seconds } - 1

      # As RETRY_SUFFIX has it.
      def retry_name(seconds)
        number = (seconds % 1).zero? ? seconds.to_i : seconds.to_f
        "#{stage ? stage.main : @name}.retry.#{number}"
      end

      def check
        check_failures
        check_pattern if pattern
        refuse(:transactional, "cannot be combined with concurrency") if transactional && keyed?
        Parallel.check(parallel, deserializer, "topic #{@name}: deserializer") if parallel == :ractor
        check_where if where
        check_partitions if partitions
        check_consumer
      end

      def check_failures
        refuse(:then, "cannot be combined with dead_letters") if dead_letters && self.then == :skip
        refuse(:retries, "cannot be combined with retry_in") if retry_in && retries.nil?
        refuse_loop
        refuse(:drain, "contains a delay that is also in retry_in") if (Array(drain) & Array(retry_in)).any?
      end

      def check_pattern
        named = %i[retry_in drain creates].find { |setting| @settings.fetch(setting) }
        return unless named

        shown = @settings.fetch(named) unless named == :creates
        raise ConfigError.new("topic #{@name}: #{named}", shown, "works only for topics that are routed by name")
      end

      # Its dead letters would come back to it.
      def refuse_loop
        reason = pattern ? "is matched by the topic's own pattern" : "is the topic itself"
        looping = dead_letter_topics.find { |name| match?(name) }
        raise ConfigError.new("topic #{@name}: dead_letters", looping, reason) if looping
      end

      def check_where
        fields = Condition.of_fields(where)
        return if fields.empty?

        if Formats::STRINGS.include?(Formats.name(decode))
          refuse(:decode, "has no fields for `where`: use :json, :msgpack or :avro")
        end
        types = field_types or return
        path, = fields.find { |names, _| types.at(names).empty? }
        return unless path

        # It would drop all messages, or none.
        raise ConfigError.new("topic #{@name}: where(#{path.map(&:inspect).join(", ")})", nil,
                              "#{types.name} has no such field")
      end

      def check_partitions
        refuse(:partitions, "work only for topics that are routed by name") if pattern
        refuse(:partitions, "cannot be combined with retry_in") if retry_in || drain
      end

      def check_consumer
        return if @consumer.is_a?(Class) || (@consumer.is_a?(String) && !@consumer.empty?)

        raise ConfigError.new("topic #{@name}, to", @consumer, "expected a consumer class, or its name as a String")
      end

      def refuse(setting, reason)
        raise ConfigError.new("topic #{@name}: #{setting}", @settings.fetch(setting), reason)
      end
    end
  end
end
