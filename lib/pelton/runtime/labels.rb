# frozen_string_literal: true

require_relative "../delivery"
require_relative "../errors"

module Pelton
  # A delivery whose messages have labels: objects of the application that come back with the result. It has the methods
  # of Pelton::Delivery, and its errors have their message's label.
  class LabelledDelivery
    include Delivery::Inspection

    # One per message, in order.
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

    %i[id done? delivered? settled? expect_wait expect_no_wait seen size topic partition offset].each do |name|
      define_method(name) { @delivery.public_send(name) }
    end

    #: () -> DeliveryError?
    def error = reports.filter_map(&:last).first

    #: () -> Array[[String, Integer?, Integer?, DeliveryError?]]
    def reports
      @delivery.reports.each_with_index.map do |(*handle, error), index|
        [*handle, error&.with_label(@labels[index])]
      end
    end
  end

  # Finds the labels of messages for the events of one poller, and the middleware that gets their reports. Without
  # either, it costs nothing. A delivery is removed
  # when it is settled and all its events are published. `add` looks for such deliveries each time the table has
  # doubled. So the table has at most twice as many entries as there are deliveries in flight or with unpublished
  # events.
  class Labels
    # With fewer entries, `add` does not look for deliveries to remove.
    LIMIT = 256
    private_constant :LIMIT

    # poller: its `emitted` counts the events of its clients.
    #: (Poller) -> void
    def initialize(poller)
      @poller = poller
      @lock = Mutex.new
      # {delivery id => [delivery, value of `emitted` when it was found settled, or nil, Observers or nil]}. Guarded by
      # @lock.
      @table = {}
      @limit = LIMIT
      # Number of published events. Only the thread that publishes writes it.
      @published = 0
    end

    # observers: called with the report of each message.
    #: (Delivery | LabelledDelivery, ?Producer::Middleware::Observers?) -> void
    def add(delivery, observers = nil)
      @lock.synchronize do
        sweep if @table.size >= @limit
        @table[delivery.id] = [delivery, nil, observers]
      end
    end

    # The middleware that gets the reports of this delivery's messages.
    #: (Integer) -> Producer::Middleware::Observers?
    def observers(id) = @lock.synchronize { @table[id]&.last }

    # The label of a message, by its delivery's id and its position in the delivery.
    #: (Integer?, Integer?) -> untyped
    def of(id = nil, position = nil) = id && @lock.synchronize { @table[id]&.first&.labels&.at(position) }

    # One more event was published, in the order in which they were emitted.
    #: () -> void
    def published = @published += 1

    # Number of published events.
    #: () -> Integer
    def count = @published

    #: () -> Integer
    def size = @lock.synchronize { @table.size }

    private

    # A delivery emits its events before it is settled. `emitted` is read after that, so it counts them.
    def sweep
      settled = @table.each_value.select { |delivery, as_of| as_of.nil? && delivery.settled? }
      emitted = @poller.emitted
      settled.each { |entry| entry[1] = emitted }
      @table.delete_if { |_, (_, as_of)| as_of && as_of <= @published }
      @limit = [LIMIT, 2 * @table.size].max
    end
  end
end
