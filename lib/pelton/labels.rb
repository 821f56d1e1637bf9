# frozen_string_literal: true

require_relative "errors"

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

    %i[id done? delivered? size topic partition offset].each do |name|
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

  # Which labels belong to messages on their way: for what is told as an event. Costs nothing where no label is given.
  # What is done is forgotten when as much has been added, at least LIMIT, so the table is bounded by a few times the
  # messages that are on their way at once. LIMIT is also how many events may wait to be told and keep their labels.
  module Labels
    LIMIT = 10_000
    LOCK = Mutex.new
    # {id of the delivery => [LabelledDelivery, found done before?]}, of process @pid. Guarded by LOCK.
    TABLE = {} # rubocop:disable Style/MutableConstant
    @limit = LIMIT
    @pid = Process.pid
    private_constant :LIMIT, :LOCK, :TABLE

    class << self
      #: (LabelledDelivery) -> LabelledDelivery
      def add(delivery)
        LOCK.synchronize do
          start_anew unless @pid == Process.pid
          sweep if TABLE.size >= @limit
          TABLE[delivery.id] = [delivery, false]
        end
        delivery
      end

      # The label of a message: its delivery's id, its position in it.
      #: (Integer?, Integer?) -> untyped
      def of(id = nil, position = nil) = id && LOCK.synchronize { TABLE[id]&.first&.labels&.at(position) }

      #: () -> Integer
      def size = LOCK.synchronize { TABLE.size }

      private

      # An event about what failed may still be on its way here: what is done stays for one more round.
      def sweep
        TABLE.delete_if { |_, (_, old)| old }
        TABLE.each_value { |entry| entry[1] = entry[0].done? }
        @limit = TABLE.size + [LIMIT, TABLE.each_value.count { |_, old| !old }].max
      end

      # Of a parent's messages its child hears nothing.
      def start_anew
        TABLE.clear
        @pid = Process.pid
      end
    end
  end
end
