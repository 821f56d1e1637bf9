# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # A delivery whose messages carry labels: objects of the user's that come back with what became of them. Has the
  # methods of Pelton::Delivery; its errors tell their message's label.
  class LabelledDelivery
    # One per message, in their order.
    attr_reader :labels

    #: (Delivery, Array[untyped]) -> void
    def initialize(delivery, labels)
      @delivery = delivery
      @labels = labels.freeze
    end

    #: () -> untyped
    def label = @labels.first

    # See Delivery#wait.
    #: (?timeout: Numeric?) -> self
    def wait(timeout: nil)
      @delivery.wait(timeout: timeout)
      self
    rescue DeliveryError
      raise error
    end

    %i[id done? delivered? settled? size topic partition offset].each do |name|
      define_method(name) { @delivery.public_send(name) }
    end

    #: () -> DeliveryError?
    def error = reports.filter_map(&:last).first

    #: () -> Array[[String, Integer?, Integer?, DeliveryError?]]
    def reports
      @delivery.reports.each_with_index.map do |(*place, error), index|
        [*place, error&.with_label(@labels[index])]
      end
    end

    def inspect = "#<#{self.class} #{topic} #{done? ? "done" : "open"} #{@labels.inspect}>"
  end

  # Which labels belong to messages on their way: for what one poller tells as events. Costs nothing where no label is
  # given. Forgets what is done once every event that it can have been the reason of is published, however late that is.
  # It looks for that when the table is twice as large as after the last look, so it is bounded by twice the messages
  # that are on their way or whose events are.
  class Labels
    # A smaller table is not worth a look.
    LIMIT = 256
    private_constant :LIMIT

    # poller: `told` is how many events its clients ever emitted.
    #: (Poller) -> void
    def initialize(poller)
      @poller = poller
      @lock = Mutex.new
      # {id of the delivery => [LabelledDelivery, what `told` was when it was found settled]}. Guarded by @lock.
      @table = {}
      @limit = LIMIT
      # Events that were published. Only the thread that publishes writes it.
      @published = 0
    end

    #: (LabelledDelivery) -> LabelledDelivery
    def add(delivery)
      @lock.synchronize do
        sweep if @table.size >= @limit
        @table[delivery.id] = [delivery, nil]
      end
      delivery
    end

    # The label of a message: its delivery's id, its position in it.
    #: (Integer?, Integer?) -> untyped
    def of(id = nil, position = nil) = id && @lock.synchronize { @table[id]&.first&.labels&.at(position) }

    # One more event, in the order they were emitted in, was published.
    #: () -> void
    def published = @published += 1

    # How many were.
    #: () -> Integer
    def count = @published

    #: () -> Integer
    def size = @lock.synchronize { @table.size }

    private

    # A delivery emits its events before it is settled: `told` is asked afterwards, so it counts them.
    def sweep
      settled = @table.each_value.select { |delivery, as_of| as_of.nil? && delivery.settled? }
      told = @poller.told
      settled.each { |entry| entry[1] = told }
      @table.delete_if { |_, (_, as_of)| as_of && as_of <= @published }
      @limit = [LIMIT, 2 * @table.size].max
    end
  end
end
