# frozen_string_literal: true

require_relative "clock"
require_relative "errors"

module Pelton
  # What became of one message, or of many that were handed over together. The native extension makes its objects and
  # has its other methods: wait(timeout:), done?, delivered?, size, topic, partition, offset, error, reports; and, for
  # Labels, settled? (it is done, and nobody waits for it who could give up and have its failures told as events).
  class Delivery
    #: def wait: (?timeout: Numeric?) -> self
    #: def done?: () -> bool
    #: def delivered?: () -> bool
    #: def settled?: () -> bool
    #: def size: () -> Integer
    #: def id: () -> Integer
    #: def topic: () -> String?
    #: def partition: () -> Integer?
    #: def offset: () -> Integer?
    #: def error: () -> DeliveryError?
    #: def reports: () -> Array[[String, Integer?, Integer?, DeliveryError?]]

    # Waits until every one of these deliveries has its verdict, `timeout` seconds at most in all, and returns them.
    # Raises the first failure in their order (DeliveryError), or WaitTimeout that says how many are open.
    #   Pelton::Delivery.wait_all(orders.map { |order| producer.produce_async(topic: "orders", payload: order) })
    # Waits as `wait` does: without the GVL, interruptibly, parking a fiber under a scheduler.
    #: (Array[Delivery], ?timeout: Numeric?) -> Array[Delivery]
    def self.wait_all(deliveries, timeout: nil)
      deadline = Clock.deadline(timeout)
      failure = nil
      deliveries.each do |delivery|
        delivery.wait(timeout: Clock.left(deadline))
      rescue DeliveryError => e
        failure ||= e
      rescue WaitTimeout => e
        raise late(deliveries, e.topic, timeout), cause: failure
      end
      raise failure if failure

      deliveries
    end

    # "3 of 10 deliveries to orders not finished after 5 s; …"
    def self.late(deliveries, topic, timeout)
      open = deliveries.count { |delivery| !delivery.done? }
      WaitTimeout.new("#{open} of #{deliveries.size} deliveries", topic, timeout)
    end
    private_class_method :late

    # The `label:` of the message (the first of many); nil where none was given.
    #: () -> untyped
    def label = nil

    # Those of all its messages, in their order; empty where none was given.
    #: () -> Array[untyped]
    def labels = []
  end
end
