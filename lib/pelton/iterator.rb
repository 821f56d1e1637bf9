# frozen_string_literal: true

module Pelton
  class Iterator
    # Named before its parts are loaded: otherwise its autoload would load this file again.
  end
end

require_relative "background"
require_relative "runtime/clock"
require_relative "errors"
require_relative "message"
require_relative "runtime/notifications"
require_relative "settings/settings"
require_relative "subscription"
require_relative "iterator/ends"
require_relative "iterator/growth"
require_relative "iterator/positions"

module Pelton
  # Reads topics in a script, without a server, workers or a group's coordination. Pelton.each and App#each make one.
  # Each `each` opens its own client and closes it at the end: after the last message, `break`, an exception, Interrupt
  # or Thread#kill.
  #   Pelton.each("orders", from: -100).first.payload # the Enumerator of one
  class Iterator
    include Enumerable

    # Seconds that the end may take: to commit (with a group) and to close the connections.
    CLOSE = 10
    ALL_BROKERS_DOWN = -187
    # Seconds between two attempts to ask Kafka.
    PAUSE = 0.2
    REGISTRY = "cannot be combined with registry:, which needs `decode: :avro` without its own registry or decoder"
    private_constant :CLOSE, :ALL_BROKERS_DOWN, :PAUSE, :REGISTRY

    # For Pelton: App#each makes it, and describes the options. topics, from: see Positions. group: begin where this
    # group has committed, otherwise at `from`, and mark a message when the block returns. timeout: seconds of a
    # question to Kafka. where: a condition of Routing::Condition; messages that are `undecided?` reach the block.
    # on_begin: gets {["orders", 0] => first offset … end}. Raises ConfigError.
    #: (Config, Array[untyped], ?from: untyped, ?follow: bool, ?group: String?,
    #:  ?decode: (Symbol | Hash[Symbol, untyped] | Avro::Decoder)?, ?registry: (Registry | String)?,
    #:  ?deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?key_deserializer: untyped, ?headers_deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?kafka: Hash[String, untyped], ?timeout: Numeric?, ?up_to: (Integer | Time | Symbol | Proc)?,
    #:  ?stop_at: ^(Message) -> boolish, ?reached_end: ^(String, Integer) -> void, ?where: Array[untyped]?,
    #:  ?on_begin: ^(Hash[[String, Integer], Range[Numeric]]) -> void,
    #:  ?bus: Notifications, ?native: Module?) -> void
    def initialize(config, topics, from: :beginning, up_to: nil, follow: false, group: nil, decode: nil, registry: nil,
                   deserializer: nil, key_deserializer: nil, headers_deserializer: nil, kafka: {}, timeout: nil,
                   stop_at: nil, reached_end: nil, where: nil, on_begin: nil,
                   bus: Notifications.new, native: nil)
      @config = config
      @positions = Positions.new(topics, from)
      @follow = follow
      @ends = Ends.new(up_to, follow)
      @group = group
      @timeout = Clock.check(timeout) || config.commit_timeout
      @stop_at = callable(:stop_at, stop_at)
      @reached_end = callable(:reached_end, reached_end)
      @options = { decode: of_all(format(decode, registry)),
                   deserializers: of_all(callable(:deserializer, deserializer)),
                   key_deserializers: of_all(Settings::TOPIC.fetch(:key_deserializer).check(key_deserializer)),
                   headers_deserializers: of_all(callable(:headers_deserializer, headers_deserializer)),
                   where: of_all(where),
                   kafka: { **kafka, "enable.partition.eof" => @ends.fixed? || !reached_end.nil? },
                   bus: bus, native: native }
      @bus = bus
      @on_begin = callable(:on_begin, on_begin)
    end

    # Yields each message, in the order of offsets within a partition. Returns self; without a block, an Enumerator.
    #   Pelton.each("orders").each_slice(100) { |messages| puts messages.size }
    # Runs in the calling thread. Raises ConfigError if a topic or partition does not exist, and KafkaError.
    #: () { (Message) -> void } -> self | () -> Enumerator[Message, self]
    def each(&block)
      return enum_for(:each) unless block

      subscription = Subscription.new(@config, group_id: @group, **@options)
      begin
        growth = growth(subscription)
        spans = spans(subscription)
        ends = begin_at(spans, subscription, growth)
        read = spans.transform_values(&:begin) # up to where, also behind the ends of transactions
        until ends.empty?
          take(subscription, read, ends, growth, &block)
          settle(subscription, read, ends) if @ends.over?
          grow(subscription, ends, growth) if growth
        end
        commit(subscription) if @group
      ensure
        subscription.close(CLOSE)
      end
      self
    end

    def inspect
      "#<#{self.class} #{@positions.topics.join(", ")}#{" group #{@group}" if @group}#{" follow" if @follow}>"
    end

    private

    def of_all(setting) = @positions.topics.to_h { |topic| [topic, setting] }.compact

    # A registry alone means Avro.
    def format(decode, registry)
      return decode if registry.nil?
      return { format: :avro, registry: registry } if [nil, :avro].include?(decode)

      options = decode.is_a?(Hash) && Formats.name(decode) == :avro && !decode.key?(:registry) && !decode.key?(:decoder)
      options ? { **decode, registry: registry } : raise(ConfigError.new(:decode, Formats.name(decode), REGISTRY))
    end

    def callable(name, object)
      return object if object.nil? || object.respond_to?(:call)

      raise ConfigError.new(name, object, "expected an object with the method call")
    end

    # Returns nil if partitions that are added are not read: without `follow`, with `up_to`, or if partitions are named.
    def growth(subscription)
      return if @ends.fixed? || @positions.whole_topics.empty?

      Growth.new({ **@config.kafka, **@options[:kafka] }) do |known|
        @positions.added(known, subscription, timeout: @timeout, committed: !@group.nil?)
      end
    end

    # Repeats a question that fails for a moment, for example while a partition has no leader.
    def asking(subscription)
      deadline = Clock.deadline(@timeout)
      begin
        yield
      rescue KafkaError => e
        raise explained(e, subscription) if !e.retriable? || e.fatal? || Clock.left(deadline).zero?

        Background::Stop.new.wait(PAUSE)
        retry
      end
    end

    def spans(subscription)
      asking(subscription) { @positions.spans(subscription, timeout: @timeout, committed: !@group.nil?) }
    end

    # The error with what the client reported meanwhile: a refused password, or else a closed port. That all brokers are
    # down follows from it.
    def explained(error, subscription)
      reasons = []
      while (event = subscription.poll(0))
        reasons << event[1] if event.first == :error && event[1].code != ALL_BROKERS_DOWN
      end
      return error if reasons.empty?

      why = reasons.reject(&:retriable?).last || reasons.last
      reason = "#{error.reason}; last error: #{why.reason}"
      KafkaError.new(error.code, error.name, reason, error.fatal?, error.retriable?)
    end

    # Reads added partitions, too. If a question fails, it is asked again the next time.
    def grow(subscription, ends, growth)
      spans = growth.look
      return if spans.empty?

      commit(subscription) if @group # another assignment forgets what is marked
      fresh = spans.map { |topic_partition, span| [*topic_partition, span.begin] }
      subscription.assign(ends.keys.map { |topic_partition| growth.position(topic_partition) } + fresh)
      spans.each { |topic_partition, span| growth.reading(topic_partition, span.begin) }
      ends.update(spans.transform_values { Float::INFINITY })
    rescue KafkaError, ConfigError => e
      raise if e.is_a?(KafkaError) && e.fatal?

      @bus.publish("error.occurred", error: e, source: "kafka")
    end

    # {["orders", 0] => the offset at which it ends}, for partitions that have not ended.
    def begin_at(spans, subscription, growth)
      ends = asking(subscription) { @ends.of(spans, subscription, @timeout) }
      @on_begin&.call(spans.to_h { |topic_partition, span| [topic_partition, span.begin...ends[topic_partition]] })
      nothing, spans = spans.partition { |topic_partition, span| span.begin >= ends[topic_partition] }.map(&:to_h)
      nothing.each_key { |topic_partition| @reached_end&.call(*topic_partition) }
      subscription.assign(spans.map { |topic_partition, span| [*topic_partition, span.begin] }) unless spans.empty?
      spans.each { |topic_partition, span| growth.reading(topic_partition, span.begin) } if growth
      ends.slice(*spans.keys)
    end

    # The Time has passed, so all messages before it are in the topics now.
    def settle(subscription, read, ends)
      now = spans(subscription).slice(*ends.keys)
      ends.update(asking(subscription) { @ends.of(now, subscription, @timeout) })
      now.each_key do |topic_partition|
        offset = [subscription.position(*topic_partition), read.fetch(topic_partition)].compact.max
        reached(topic_partition, offset, subscription, ends)
      end
    end

    def take(subscription, read, ends, growth, &block)
      kind, *facts = subscription.poll([growth&.wait, @ends.wait].compact.min)
      case kind
      when :batch
        batch(facts.first, subscription, ends, &block)
        growth&.reading(facts.first.topic_partition, facts.first.last_offset + 1)
      when :eof
        read[facts.first(2)] = facts.last
        at_end(facts.first(2), facts.last, subscription, ends)
      when :error then failed(*facts)
      when :closed then raise ClosedError, subscription.inspect
      end
    end

    def batch(batch, subscription, ends)
      last = ends[batch.topic_partition]
      batch.each do |message|
        break unless last && message.offset < last
        return stop(batch, subscription, ends) if @ends.past?(message) || @stop_at&.call(message)

        yield message
        mark(message, subscription) if @group
      end
      batch.release
      reached(batch.topic_partition, batch.last_offset + 1, subscription, ends)
    end

    def reached(topic_partition, offset, subscription, ends)
      return unless ends.key?(topic_partition) && offset >= ends[topic_partition]

      @reached_end&.call(*topic_partition)
      leave(topic_partition, subscription, ends)
    end

    # A followed partition reaches its end again and again.
    def at_end(topic_partition, offset, subscription, ends)
      last = ends.fetch(topic_partition, 0)
      return reached(topic_partition, offset, subscription, ends) if !@follow || offset >= last

      @reached_end&.call(*topic_partition)
    end

    def stop(batch, subscription, ends)
      batch.release
      leave(batch.topic_partition, subscription, ends)
    end

    def leave(topic_partition, subscription, ends)
      ends.delete(topic_partition)
      subscription.pause([topic_partition])
    end

    def mark(message, subscription)
      subscription.mark(message.topic, message.partition, message.offset + 1, message.leader_epoch)
    end

    # Kafka refuses commits of a client that is no member while the group has members.
    def commit(subscription)
      return if subscription.commit(@timeout)

      raise ConfigError.new(:group, @group, "has members now: stop them (for example a server) before you commit")
    end

    # Errors that librdkafka repairs by itself become events.
    def failed(error, topic, partition)
      raise error if !error.retriable? || error.fatal?

      @bus.publish("error.occurred", topic: topic, partition: partition, error: error, source: "kafka")
    end
  end
end
