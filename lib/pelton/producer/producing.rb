# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/labels"
require_relative "later"
require_relative "middleware"
require_relative "piping"

module Pelton
  class Producer
    # The methods that send, for producers and their variants. A class that includes it provides:
    #   @native, native, opened         the open native client or nil · opens it · the one of this process or nil
    #   @source                         the producer whose client it is
    #   @chain, @partitioner, @tracer   the middleware · a variant's own partitioner · config.tracer
    #   @queue_timeout, @delivery_timeout, after_fork
    module Producing
      include Piping
      include Later

      KEYS = %i[topic payload key partition timestamp headers partition_key label].freeze
      EXPECTED = "a Hash of topic:, payload: and, if wanted, #{KEYS.drop(2).map { |key| "#{key}:" }.join(", ")}".freeze
      private_constant :KEYS, :EXPECTED

      # Puts a message into the queue and returns its delivery immediately.
      #   delivery = producer.produce_async(topic: "orders", payload: "…", key: "7")
      #   delivery.wait(timeout: 5).offset # => 42
      # payload: a String, or nil for a tombstone. headers: {"name" => "value" or ["value", "value"]}. timestamp: a
      # Time, or Integer milliseconds since 1970. partition_key: selects the partition instead of `key`; Kafka does not
      # store it. The first one of a topic asks Kafka for the number of partitions, see partition_count. label: any
      # object, see Delivery#label.
      #
      # If the queue is full, it waits up to config.queue_timeout (10 s), then raises QueueFullError. Raises
      # InvalidMessageError for wrong arguments, ClosedError and ForkError. Delivery errors are raised by `wait`.
      # Callable from every thread.
      #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?partition_key: String?,
      #:  ?headers: Hash[String, String | Array[String]]?, ?timestamp: (Time | Integer)?, ?label: untyped) -> Delivery
      def produce_async(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil, partition_key: nil,
                        label: nil)
        if !partition_key.nil? || !label.nil? || @partitioner || !@chain.empty?
          return dispatch(given(topic, payload, key:, partition:, headers:, timestamp:, partition_key:, label:))
        end

        (@native || native).produce(topic, payload, key, partition, timestamp, headers, @queue_timeout)
      rescue ForkError => e
        after_fork(e)
        retry
      end

      # Sends a message and waits until Kafka has stored it. Takes the keywords of produce_async. Returns the delivery.
      #   producer.produce_sync(topic: "orders", payload: "…", key: "7").offset # => 42
      # Raises DeliveryError if the message failed, and WaitTimeout if there is no result after `timeout` seconds
      # (config.delivery_timeout, 180 s); then it may still be delivered. Also raises what produce_async raises.
      #
      # Callable from every thread. Waiting releases the GVL, skips the linger and can be interrupted by Thread#kill.
      # Under a Fiber.scheduler, only the fiber waits.
      #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?partition_key: String?,
      #:  ?headers: Hash[String, untyped]?, ?timestamp: (Time | Integer)?, ?label: untyped,
      #:  ?timeout: Numeric?) -> Delivery
      def produce_sync(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil, partition_key: nil,
                       label: nil, timeout: nil)
        Clock.check(timeout)
        if !partition_key.nil? || !label.nil? || @partitioner || !@chain.empty?
          message = given(topic, payload, key:, partition:, headers:, timestamp:, partition_key:, label:)
          sent = dispatch(message, awaited: true)
        end
        sent ||= of_this_process do
          (@native || native).produce(topic, payload, key, partition, timestamp, headers, @queue_timeout, true)
        end
        wait(sent, timeout)
      end

      # For the framework: sends a message without the middleware, which it passed when it was produced first.
      #: (topic: String, payload: String?, **untyped) -> Delivery
      def produce_copy(**message)
        wait(hand_over([@tracer ? @tracer.call(message) : message], observers: [], awaited: true), nil)
      end

      # Sends many messages with one native call. Each is a Hash with the keywords of produce_async. Returns one
      # delivery for all of them: its `wait` raises if any failed, and `reports` has the result of each.
      #
      # The call holds the GVL while it reads the Hashes and librdkafka copies keys, payloads and headers. The time is
      # in proportion to the number of messages and their bytes. Every 10 ms other Ruby threads get their turn, as they
      # do between two lines of Ruby. A thread that is killed there leaves the rest of its messages unsent.
      #   producer.produce_many_async(orders.map { |order| { topic: "orders", payload: order.to_json } })
      # All messages are checked before the first one is sent; an InvalidMessageError has the `index` of the wrong one.
      # At most 524,287 messages per call. If the queue stays full for config.queue_timeout (10 s), it raises
      # QueueFullError, whose `delivery` shows which messages were accepted. Callable from every thread.
      #: (Array[Hash[Symbol, untyped]]) -> Delivery
      def produce_many_async(messages) = dispatch_many(messages)

      # Like produce_many_async, and waits for all messages as produce_sync does: up to `timeout` seconds in all.
      #   producer.produce_many_sync([{ topic: "orders", payload: "a" }, { topic: "orders", payload: "b" }], timeout: 5)
      #: (Array[Hash[Symbol, untyped]], ?timeout: Numeric?) -> Delivery
      def produce_many_sync(messages, timeout: nil)
        Clock.check(timeout)
        wait(dispatch_many(messages, awaited: true), timeout)
      end

      # Sends a message without a payload, so that log compaction deletes its key. Takes the other keywords of
      # produce_async.
      #   producer.tombstone_async(topic: "customers", key: "7")
      # Raises InvalidMessageError without a key; otherwise like produce_async.
      #: (topic: String, key: String, **untyped) -> Delivery
      def tombstone_async(topic:, key:, **more) = produce_async(**tombstone({ topic: topic, key: key, **more }))

      # Like tombstone_async, and waits as produce_sync does.
      #   producer.tombstone_sync(topic: "customers", key: "7", timeout: 5)
      #: (topic: String, key: String, ?timeout: Numeric?, **untyped) -> Delivery
      def tombstone_sync(topic:, key:, timeout: nil, **more)
        produce_sync(**tombstone({ topic: topic, key: key, **more }), timeout: timeout)
      end

      # Sends many tombstones with one native call, like produce_many_async.
      #   producer.tombstone_many_async([{ topic: "customers", key: "7" }, { topic: "customers", key: "8" }])
      #: (Array[Hash[Symbol, untyped]]) -> Delivery
      def tombstone_many_async(messages) = dispatch_many(tombstones(messages))

      # Like tombstone_many_async, and waits for all of them as produce_sync does.
      #   producer.tombstone_many_sync([{ topic: "customers", key: "7" }], timeout: 5)
      #: (Array[Hash[Symbol, untyped]], ?timeout: Numeric?) -> Delivery
      def tombstone_many_sync(messages, timeout: nil)
        Clock.check(timeout)
        wait(dispatch_many(tombstones(messages), awaited: true), timeout)
      end

      # For Pelton's outbox: the message past the middleware, checked as if it were sent now, and without a label.
      #: (Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
      def checked(message)
        message = known(past_middleware(message))
        unless message[:label].nil?
          raise InvalidMessageError.new(:label, message[:label], "nil (a label is an object of this process)")
        end

        check_partition_key(message[:partition_key], message[:partition])
        @source.check(message.except(:partition_key, :label))
        message
      end

      # Number of partitions of a topic. Asks Kafka and keeps the answer for 30 s.
      #   producer.partition_count("orders") # => 4
      # Raises DeliveryError if the topic does not exist, and WaitTimeout after `timeout` seconds (config.queue_timeout,
      # 10 s). Callable from every thread; several callers share one request.
      #: (String, ?timeout: Numeric?) -> Integer
      def partition_count(topic, timeout: nil)
        check_topic(topic)
        explained { @source.partitions.count(topic, Clock.check(timeout) || @queue_timeout) }
      end

      private

      def given(topic, payload, **more) = { topic:, payload:, **more.compact }

      # Raises what sending to this topic would raise immediately.
      def check_topic(topic) = @source.check({ topic: topic, payload: nil })

      def check_array(messages)
        raise InvalidMessageError.new(:messages, messages, "an Array of Hashes") unless messages.is_a?(Array)
      end

      # Checks that a message has the required keys and no unknown one. Their values are checked elsewhere.
      def known(message)
        raise InvalidMessageError.new(:message, message, EXPECTED) unless message.is_a?(Hash)

        unknown = message.each_key.find { |key| !KEYS.include?(key) }
        raise InvalidMessageError.new(:message, unknown, EXPECTED) if unknown
        raise InvalidMessageError.new(:message, message, EXPECTED) unless message.key?(:topic) && message.key?(:payload)

        message
      end

      def past_middleware(message)
        raise InvalidMessageError.new(:message, message, EXPECTED) unless message.is_a?(Hash)

        Middleware.run(@chain, message)
      end

      # Maps a batch. An error gets the index of its message.
      def each_of(messages)
        index = -1
        messages.map do |message|
          index += 1
          yield message
        end
      rescue InvalidMessageError => e
        raise e.at(index)
      end

      def tombstone(message)
        raise InvalidMessageError.new(:message, message, EXPECTED) unless message.is_a?(Hash)

        key, payload = message.values_at(:key, :payload)
        unless key.is_a?(String) && !key.empty?
          raise InvalidMessageError.new(:key, key, "a String that is not empty (a tombstone erases a key)")
        end
        raise InvalidMessageError.new(:payload, payload, "none (a tombstone has no payload)") unless payload.nil?

        { **message, payload: nil }
      end

      def tombstones(messages)
        check_array(messages)
        each_of(messages) { |message| tombstone(message) }
      end

      # Sends one message that has a label or partition key, passes middleware or is awaited. awaited: true if the
      # caller then waits for the delivery, so that no failure needs an event.
      def dispatch(message, awaited: nil)
        message = known(past_middleware(message))
        observers = Middleware.observers(@chain)
        return hand_over([message], observers:, awaited:) if !message[:label].nil? || observers.any?

        plain = plain(**message).values_at(:topic, :payload, :key, :partition, :timestamp, :headers)
        of_this_process { native.produce(*plain, @queue_timeout, *awaited) }
      rescue InvalidMessageError => e
        raise e.index ? e.at(nil) : e # it was a batch of one
      rescue QueueFullError => e
        raise e.delivery ? QueueFullError.new(e.topic, e.seconds) : e
      end

      def dispatch_many(messages, awaited: nil)
        check_array(messages)
        messages = each_of(messages) { |message| past_middleware(message) } unless @chain.empty?
        observers = Middleware.observers(@chain)
        unless @partitioner || observers.any?
          sent = of_this_process { (@native || native).produce_many(messages, @queue_timeout, *awaited) }
        end
        sent || hand_over(messages, observers:, awaited:)
      end

      # Sends messages that passed the middleware. Yields the delivery before the first one is sent. observers: the
      # middleware that gets their reports.
      def hand_over(messages, queue_timeout = @queue_timeout, observers: Middleware.observers(@chain), awaited: nil)
        each_of(messages) { |message| known(message) }
        labels = messages.map { |message| message[:label] }
        labels = nil if labels.all?(&:nil?)
        made = nil
        rows = each_of(messages) { |message| plain(**message) }
        sent = of_this_process do
          native.produce_many(rows, queue_timeout, *awaited) do |delivery|
            made = labels ? LabelledDelivery.new(delivery, labels) : delivery
            track(delivery, made, messages, observers) if labels || observers.any?
            yield made if block_given?
          end
        end
        labels ? made : sent
      rescue QueueFullError => e
        raise labels ? QueueFullError.new(e.topic, e.seconds, made) : e
      end

      def track(delivery, made, messages, observers)
        return @source.labels.add(made) if observers.empty?

        @source.labels.add(made, Middleware::Observers.new(observers, messages))
        delivery.publish_reports
      end

      # Runs the block. If the client belongs to a parent process, runs it again with a client of this process.
      def of_this_process
        yield
      rescue ForkError => e
        after_fork(e)
        retry
      end

      # The message for the native client: without a label, and with a partition instead of a partition_key.
      def plain(topic:, payload:, key: nil, partition: nil, partition_key: nil, label: nil, **more)
        check_partition_key(partition_key, partition)
        by = partition_key || (key if @partitioner)
        partition ||= partition_of(topic, by) if by.is_a?(String)
        { topic: topic, payload: payload, key: key, partition: partition, **more }
      end

      def check_partition_key(given, partition)
        return if given.nil? || (given.is_a?(String) && !given.empty? && !partition)

        expected = partition ? "nil: a partition is given" : "a String that is not empty, or nil"
        raise InvalidMessageError.new(:partition_key, given, expected)
      end

      def partition_of(topic, key)
        check_topic(topic)
        @source.partitions.choose(@partitioner || @source.partitioner, topic, key, @queue_timeout)
      end

      def wait(delivery, timeout)
        timeout ||= @delivery_timeout
        @tracer ? @tracer.wait(delivery) { delivery.wait(timeout: timeout) } : delivery.wait(timeout: timeout)
      end

      # Runs the block. Adds the reason to its WaitTimeout, if it is known.
      def explained
        yield
      rescue WaitTimeout => e
        reason = opened&.last_error or raise
        raise WaitTimeout.new(e.operation, e.topic, e.seconds, reason), cause: reason
      end
    end
  end
end
