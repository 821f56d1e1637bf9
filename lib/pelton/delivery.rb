# frozen_string_literal: true

require_relative "runtime/clock"
require_relative "errors"

module Pelton
  # The result of one message, or of many that were sent with one call. Producer#produce_async and its relatives return
  # it.
  #   delivery = producer.produce_async(topic: "orders", payload: "…")
  #   delivery.wait(timeout: 5).offset # => 42
  # All methods are callable from every thread of the process that produced; in a forked child, `wait` raises ForkError.
  class Delivery
    # @!method wait(timeout: nil)
    #   Waits until each message has a result, up to `timeout` seconds (nil: as long as it takes). Returns the delivery.
    #     producer.produce_async(topic: "orders", payload: "…").wait(timeout: 5).offset # => 42
    #   Raises the first DeliveryError, WaitTimeout if the time is over (the messages may still be delivered), and
    #   ForkError in a forked child. Waits without the GVL, skips the linger, and can be interrupted by Thread#kill.
    #   Under a Fiber.scheduler, only the fiber waits.
    #: def wait: (?timeout: Numeric?) -> self

    # @!method done?
    #   Has each message a result? Does not wait.
    #     delivery.done? # => true
    #: def done?: () -> bool

    # @!method delivered?
    #   Is each message stored in Kafka? Does not wait.
    #     delivery.delivered? # => true
    #: def delivered?: () -> bool

    # @!method settled?
    #   For Pelton: is it done, and does no thread wait for it? (A waiting thread that gives up would publish failures
    #   as events.)
    #: def settled?: () -> bool

    # @!method expect_wait
    #   For Pelton: this thread is about to wait for it. So a failure is no event, unless the wait ends without it.
    #: def expect_wait: () -> void

    # @!method expect_no_wait
    #   For Pelton: the expected wait, if there is one, does not come.
    #: def expect_no_wait: () -> void

    # @!method seen
    #   For Pelton: code has got its failures, so they are no events.
    #: def seen: () -> void

    # @!method size
    #   Number of messages.
    #     producer.produce_many_async([{ topic: "orders", payload: "a" }]).size # => 1
    #: def size: () -> Integer

    # @!method publish_reports
    #   For Pelton: makes each of its messages an event when it has its report. Called before they are sent.
    #: def publish_reports: () -> void

    # @!method id
    #   For Pelton: a number that identifies the delivery in this process.
    #: def id: () -> Integer

    # @!method topic
    #   The topic of the (first) message; nil for an empty batch.
    #     delivery.topic # => "orders"
    #: def topic: () -> String?

    # @!method partition
    #   The partition of the (first) message; nil while Pelton does not know it. Does not wait.
    #     delivery.wait.partition # => 3
    #: def partition: () -> Integer?

    # @!method offset
    #   The offset of the (first) message; nil without a result, and with acks 0. Does not wait.
    #     delivery.wait.offset # => 42
    #: def offset: () -> Integer?

    # @!method error
    #   The first failure, or nil. Does not wait and does not raise.
    #     delivery.error&.name # => :_MSG_TIMED_OUT
    #: def error: () -> DeliveryError?

    # @!method reports
    #   [topic, partition, offset, error] of each message, in their order. Partition, offset and error are nil while
    #   there is no result. Does not wait.
    #     delivery.reports # => [["orders", 3, 42, nil], ["orders", 0, 17, nil]]
    #: def reports: () -> Array[[String, Integer?, Integer?, DeliveryError?]]

    # Waits until each of these deliveries has a result, up to `timeout` seconds in all (nil: as long as it takes).
    # Returns them.
    #   deliveries = orders.map { |order| producer.produce_async(topic: "orders", payload: order) }
    #   Pelton::Delivery.wait_all(deliveries, timeout: 5)
    # Raises the first failure in their order (DeliveryError), or a WaitTimeout that says how many have no result.
    # Callable from every thread. Waits without the GVL and can be interrupted; under a Fiber.scheduler, only the fiber
    # waits.
    #: (Array[Delivery], ?timeout: Numeric?) -> Array[Delivery]
    def self.wait_all(deliveries, timeout: nil)
      deadline = Clock.deadline(timeout)
      failure = nil
      deliveries.each(&:expect_wait) # a later one may fail first
      deliveries.each do |delivery|
        delivery.wait(timeout: Clock.left(deadline))
      rescue DeliveryError => e
        failure ||= e
      rescue WaitTimeout => e
        reason = e.cause if e.cause.is_a?(KafkaError)
        raise late(deliveries, e.topic, timeout, reason), cause: failure || reason
      end
      raise failure if failure

      deliveries
    ensure
      deliveries.each(&:expect_no_wait)
    end

    # "3 of 10 deliveries to orders not finished after 5 s; …"
    def self.late(deliveries, topic, timeout, reason)
      open = deliveries.count { |delivery| !delivery.done? }
      WaitTimeout.new("#{open} of #{deliveries.size} deliveries", topic, timeout, reason)
    end
    private_class_method :late

    # What `inspect` of a delivery shows, also with labels and in pelton/testing: its place, its failure, or "pending".
    module Inspection
      # Never shows a payload, and does not wait.
      def inspect
        failure = error
        state = failure ? "failed: #{failure.message}" : ("pending" unless done?)
        "#<#{self.class} #{[place, state].compact.join(" ")}>"
      end
      alias to_s inspect

      private

      # "orders/3 offset 42", "orders", or "100 messages, the first to orders/3 offset 42"
      def place
        first = [[topic, *partition].join("/"), *("offset #{offset}" if offset)].join(" ")
        return first if size == 1

        size.zero? ? "0 messages" : "#{size} messages, the first to #{first}"
      end
    end
    include Inspection

    # The object that was passed as `label:` with the (first) message; nil if there was none.
    #   producer.produce_async(topic: "orders", payload: "…", label: order).label # => order
    #: () -> untyped
    def label = nil

    # The labels of all messages, in their order; empty if there were none.
    #   producer.produce_many_async([{ topic: "orders", payload: "…", label: 7 }]).labels # => [7]
    #: () -> Array[untyped]
    def labels = []
  end

  # What became of one message, for a producer's middleware with `on_delivery`. Frozen. error: nil if Kafka has the
  # message. partition: nil if Pelton does not know it. offset: nil after a failure, and with acks 0. seconds: since
  # the produce call.
  #   report.error&.name # => :_MSG_TIMED_OUT
  #: (String, Integer?, Integer?, Float, DeliveryError?) -> void
  DeliveryReport = Struct.new(:topic, :partition, # rubocop:disable Lint/StructNewOverride
                              :offset, :seconds, :error) do
    # Is the message stored in Kafka?
    #   report.delivered? # => true
    #: () -> bool
    def delivered? = error.nil?
  end
end
