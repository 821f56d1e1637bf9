# frozen_string_literal: true

require_relative "../clock"
require_relative "../errors"
require_relative "../labels"
require_relative "middleware"
require_relative "piping"

module Pelton
  class Producer
    # The ways to send. Whoever includes it has @native (the open native client, or nil), `native` (opens it), `opened`
    # (it, or nil), `after_fork`, @source (the producer whose client that is), @chain (the middleware), @partitioner (a
    # variant's own), @queue_timeout and @delivery_timeout.
    module Producing
      include Piping

      KEYS = %i[topic payload key partition timestamp headers partition_key label].freeze
      EXPECTED = "a Hash of topic:, payload: and, if wanted, #{KEYS.drop(2).map { |key| "#{key}:" }.join(", ")}".freeze
      private_constant :KEYS, :EXPECTED

      # Hands one message over and returns at once. Waits only while the queue is full (config.queue_timeout, then
      # QueueFullError). Raises InvalidMessageError for arguments that Kafka cannot take; delivery errors are the
      # handle's.
      #   delivery = producer.produce_async(topic: "orders", payload: "…")
      #   delivery.wait.offset # => 42
      # timestamp: a Time, or Integer milliseconds since 1970. headers: {"name" => "value" or ["value", "value"]}.
      # partition_key: chooses the partition in place of `key`; Kafka never sees it. The first one of a topic asks Kafka
      # for the number of partitions (see partition_count). label: any object; see Delivery#label.
      #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?partition_key: String?,
      #:  ?headers: Hash[String, String | Array[String]]?, ?timestamp: (Time | Integer)?, ?label: untyped) -> Delivery
      def produce_async(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil, partition_key: nil,
                        label: nil)
        if !partition_key.nil? || !label.nil? || @partitioner || !@chain.empty?
          more = { key:, partition:, headers:, timestamp:, partition_key:, label: }.compact
          return dispatch({ topic:, payload:, **more })
        end

        (@native || native).produce(topic, payload, key, partition, timestamp, headers, @queue_timeout)
      rescue ForkError => e
        after_fork(e)
        retry
      end

      # Hands one message over and waits until it is delivered: returns the delivery with its partition and offset.
      # Raises DeliveryError when Kafka refused it for good, WaitTimeout when that is not known after `timeout` seconds
      # (config.delivery_timeout). Waiting leaves the GVL, ends at once on Thread#kill, and parks a fiber under a
      # scheduler.
      #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?partition_key: String?,
      #:  ?headers: Hash[String, untyped]?, ?timestamp: (Time | Integer)?, ?label: untyped,
      #:  ?timeout: Numeric?) -> Delivery
      def produce_sync(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil, partition_key: nil,
                       label: nil, timeout: nil)
        Clock.check(timeout)
        delivery = produce_async(topic: topic, payload: payload, key: key, partition: partition, headers: headers,
                                 timestamp: timestamp, partition_key: partition_key, label: label)
        wait(delivery, timeout)
      end

      # For the framework: a message as it is, past the middleware, which it went through when it was produced first.
      #: (topic: String, payload: String?, **untyped) -> Delivery
      def produce_copy(**message) = wait(hand_over([message]), nil)

      # Hands many messages over with one native call; each is a Hash with the keywords of produce_async. All are
      # checked before the first is sent (more than 524,287 are refused, too). Returns one delivery for all of them:
      # `wait` raises if any failed, `reports` tells each. When the queue stays full before all are in it,
      # QueueFullError#delivery tells which are.
      #   producer.produce_many_async(orders.map { |order| { topic: "orders", payload: order.to_json } })
      #: (Array[Hash[Symbol, untyped]]) -> Delivery
      def produce_many_async(messages)
        check_array(messages)
        messages = each_of(messages) { |message| past_middleware(message) } unless @chain.empty?
        sent = of_this_process { (@native || native).produce_many(messages, @queue_timeout) } unless @partitioner
        sent || hand_over(messages)
      end

      # The same, and waits for all of them as produce_sync does.
      #: (Array[Hash[Symbol, untyped]], ?timeout: Numeric?) -> Delivery
      def produce_many_sync(messages, timeout: nil)
        Clock.check(timeout)
        wait(produce_many_async(messages), timeout)
      end

      # A message without a payload: log compaction then forgets its key, which therefore is not optional.
      #   producer.tombstone_sync(topic: "customers", key: "7")
      # Goes to the partition that the key belongs to, unless told otherwise: as produce_async.
      #: (topic: String, key: String, **untyped) -> Delivery
      def tombstone_async(topic:, key:, **more) = produce_async(**tombstone({ topic: topic, key: key, **more }))

      # The same, and waits as produce_sync does.
      #: (topic: String, key: String, ?timeout: Numeric?, **untyped) -> Delivery
      def tombstone_sync(topic:, key:, timeout: nil, **more)
        produce_sync(**tombstone({ topic: topic, key: key, **more }), timeout: timeout)
      end

      # Many at once, as produce_many_async.
      #: (Array[Hash[Symbol, untyped]]) -> Delivery
      def tombstone_many_async(messages)
        check_array(messages)
        produce_many_async(each_of(messages) { |message| tombstone(message) })
      end

      #: (Array[Hash[Symbol, untyped]], ?timeout: Numeric?) -> Delivery
      def tombstone_many_sync(messages, timeout: nil)
        Clock.check(timeout)
        wait(tombstone_many_async(messages), timeout)
      end

      # How many partitions a topic has. Asks Kafka and remembers it for 30 s. Raises DeliveryError where the topic is
      # not there, WaitTimeout after `timeout` seconds (config.queue_timeout), also while others ask.
      #: (String, ?timeout: Numeric?) -> Integer
      def partition_count(topic, timeout: nil)
        check_topic(topic)
        @source.partitions.count(topic, Clock.check(timeout) || @queue_timeout)
      end

      private

      # Raises what sending to it would raise at once.
      def check_topic(topic) = @source.check({ topic: topic, payload: nil })

      def check_array(messages)
        raise InvalidMessageError.new(:messages, messages, "an Array of Hashes") unless messages.is_a?(Array)
      end

      # Returns a message that has all it must have and nothing that is unknown; what is in it is checked elsewhere.
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

      # Maps a batch; an error tells which of its messages is meant.
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

      # One message with what not every message has.
      def dispatch(message)
        message = known(past_middleware(message))
        return hand_over([message]) unless message[:label].nil?

        plain = plain(**message).values_at(:topic, :payload, :key, :partition, :timestamp, :headers)
        of_this_process { native.produce(*plain, @queue_timeout) }
      rescue InvalidMessageError => e
        raise e.index ? e.at(nil) : e # it was a batch of one
      rescue QueueFullError => e
        raise e.delivery ? QueueFullError.new(e.topic, e.seconds) : e
      end

      # Sends messages that went through the middleware. Yields the delivery before the first is sent.
      def hand_over(messages, queue_timeout = @queue_timeout)
        each_of(messages) { |message| known(message) }
        labels = messages.map { |message| message[:label] }
        labels = nil if labels.all?(&:nil?)
        made = nil
        rows = each_of(messages) { |message| plain(**message) }
        sent = of_this_process do
          native.produce_many(rows, queue_timeout) do |delivery|
            made = labels ? @source.labels.add(LabelledDelivery.new(delivery, labels)) : delivery
            yield made if block_given?
          end
        end
        labels ? made : sent
      rescue QueueFullError => e
        raise labels ? QueueFullError.new(e.topic, e.seconds, made) : e
      end

      # The block again, if the client turned out to be a parent process's.
      def of_this_process
        yield
      rescue ForkError => e
        after_fork(e)
        retry
      end

      # As the native client takes it: no label, and a partition for a partition_key (or for a variant's partitioner).
      def plain(topic:, payload:, key: nil, partition: nil, partition_key: nil, label: nil, **more)
        check_partition_key(partition_key, partition)
        by = partition_key || (key if @partitioner)
        partition ||= place(topic, by) if by.is_a?(String)
        { topic: topic, payload: payload, key: key, partition: partition, **more }
      end

      def check_partition_key(given, partition)
        return if given.nil? || (given.is_a?(String) && !given.empty? && !partition)

        raise InvalidMessageError.new(:partition_key, given, "a String that is not empty, or nil") unless partition

        raise InvalidMessageError.new(:partition_key, given, "nil, for a partition is given")
      end

      def place(topic, key)
        check_topic(topic)
        @source.partitions.choose(@partitioner || @source.partitioner, topic, key, @queue_timeout)
      end

      # A wait that ends at its deadline says why, as far as it is known.
      def wait(delivery, timeout)
        delivery.wait(timeout: timeout || @delivery_timeout)
      rescue WaitTimeout => e
        reason = opened&.last_error
        raise reason ? WaitTimeout.new(e.operation, e.topic, e.seconds, reason) : e
      end
    end
  end
end
