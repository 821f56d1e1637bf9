# frozen_string_literal: true

require_relative "errors"
require_relative "config"
require_relative "event_dispatch"
require_relative "notifications"

module Pelton
  # Writes messages. One per app is enough: it is thread-safe, and librdkafka batches what all threads produce.
  #   Pelton.producer.produce_sync(topic: "orders", payload: order.to_json, key: order.id.to_s)
  # The native client opens with the first use. A child process opens its own, if its parent did not use this one.
  class Producer
    # Ours where librdkafka's own default does not suit: reports before delivery_timeout ends.
    DEFAULTS = { "message.timeout.ms" => 150_000 }.freeze

    # Its name in events: "pelton.producer#1"
    attr_reader :name

    #: (Config, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, bus: Notifications.new, native: nil, kafka: {})
      @config = config
      @bus = bus
      @module = native
      @kafka = kafka
      @name = EventDispatch.client_name("#{config.client_id}.producer")
      @queue_timeout = config.queue_timeout
      @delivery_timeout = config.delivery_timeout
      # The native client, once somebody produced. Set under @lock, read without it.
      @native = nil
      @closed = false
      # Was the close published? Guarded by @lock, as @closed.
      @told = false
      @lock = Mutex.new
    end

    # Hands one message over and returns at once. Waits only while the queue is full (config.queue_timeout, then
    # QueueFullError). Raises InvalidMessageError for arguments that Kafka cannot take; delivery errors are the
    # handle's.
    #   delivery = producer.produce_async(topic: "orders", payload: "…")
    #   delivery.wait.offset # => 42
    # timestamp: a Time, or Integer milliseconds since 1970. headers: {"name" => "value" or ["value", "value"]}.
    #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?,
    #:  ?headers: Hash[String, String | Array[String]]?, ?timestamp: (Time | Integer)?) -> Delivery
    def produce_async(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil)
      timestamp = milliseconds(timestamp) if timestamp
      (@native || native).produce(topic, payload, key, partition || -1, timestamp, headers, @queue_timeout)
    end

    # Hands one message over and waits until it is delivered: returns the delivery with its partition and offset. Raises
    # DeliveryError when Kafka refused it for good, WaitTimeout when that is not known after `timeout` seconds
    # (config.delivery_timeout). Waiting leaves the GVL, ends at once on Thread#kill, and parks a fiber under a
    # scheduler.
    #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?headers: Hash[String, untyped]?,
    #:  ?timestamp: (Time | Integer)?, ?timeout: Numeric?) -> Delivery
    def produce_sync(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil, timeout: nil)
      timestamp = milliseconds(timestamp) if timestamp
      wait((@native || native).produce(topic, payload, key, partition || -1, timestamp, headers, @queue_timeout),
           timeout)
    end

    # Hands many messages over with one native call; each is a Hash with the keywords of produce_async. Returns one
    # delivery for all of them: `wait` raises if any failed, `reports` tells each. When the queue stays full before all
    # are in it, QueueFullError#delivery tells which are.
    #   producer.produce_many_async(orders.map { |order| { topic: "orders", payload: order.to_json } })
    #: (Array[Hash[Symbol, untyped]]) -> Delivery
    def produce_many_async(messages)
      (@native || native).produce_many(messages.map { |message| row(**message) }, @queue_timeout)
    end

    # The same, and waits for all of them as produce_sync does.
    #: (Array[Hash[Symbol, untyped]], ?timeout: Numeric?) -> Delivery
    def produce_many_sync(messages, timeout: nil)
      wait(produce_many_async(messages), timeout)
    end

    # Waits until everything produced so far is delivered or given up; false: not within `timeout` seconds.
    #: (?timeout: Numeric?) -> bool
    def flush(timeout: @delivery_timeout)
      native = @native
      native ? native.flush(timeout) : true
    end

    # Messages that are not yet reported.
    #: () -> Integer
    def pending = @native&.pending || 0

    # Delivers what is queued, then closes; returns how many messages could not be delivered within `timeout` seconds
    # (0: all were). From any thread, as often as you like: all callers wait for the same close.
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: @delivery_timeout)
      native = @lock.synchronize do
        @closed = true
        @native
      end
      return 0 unless native

      undelivered = native.close(timeout)
      closed(undelivered) if first_to_tell?
      undelivered
    end

    #: () -> bool
    def closed? = @closed

    def inspect = "#<#{self.class} #{@name}#{" closed" if @closed}>"

    private

    # A wait that ends at its deadline says why, as far as it is known.
    def wait(delivery, timeout)
      delivery.wait(timeout: timeout || @delivery_timeout)
    rescue WaitTimeout => e
      reason = @native&.last_error
      raise reason ? WaitTimeout.new(e.operation, e.topic, e.seconds, reason) : e
    end

    # The native client, opened by the first caller.
    def native
      opened = false
      native = @lock.synchronize do
        raise ClosedError, "producer #{@name}" if @closed

        @native ||= (opened = true) && open
      end
      @bus.publish("producer.opened", client: @name) if opened
      native
    end

    def open
      source = @module || Native
      native = source::Producer.new(@name, @config.kafka_with(DEFAULTS, @kafka))
      EventDispatch.of(source).add(@name, @bus)
      native
    end

    # The one who closed first may have been killed while waiting.
    def first_to_tell? = @lock.synchronize { !@told && (@told = true) }

    def closed(undelivered)
      @bus.publish("producer.closed", client: @name, undelivered: undelivered)
      EventDispatch.of(@module || Native).remove(@name)
    end

    def row(topic:, payload:, key: nil, partition: nil, headers: nil, timestamp: nil)
      [topic, payload, key, partition || -1, timestamp && milliseconds(timestamp), headers]
    end

    def milliseconds(timestamp)
      case timestamp
      when Integer then timestamp
      when Time then (timestamp.to_r * 1000).floor
      else raise InvalidMessageError.new(:timestamp, timestamp, "a Time or Integer milliseconds")
      end
    end
  end
end
