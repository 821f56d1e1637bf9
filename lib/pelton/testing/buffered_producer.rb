# frozen_string_literal: true

require_relative "../config"
require_relative "../producer"
require_relative "buffered"

module Pelton
  module Testing
    # A Pelton::Producer that sends nothing: what it is given can be looked at. Everything else is the producer's own
    # code (checks, middleware, buffer, labels, transactions, errors, events), so a test sees what production would.
    #   producer = Pelton::Testing::BufferedProducer.new
    #   Checkout.new(producer).call
    #   producer.messages("orders").map(&:payload) # => [{"id" => 7}]
    # topics: {"orders" => 4}, their partitions; others then are missing. Without it every topic is there, with one.
    # keep: false forgets messages as they come, for a process that is to send nothing (a console, a load test).
    # Variants with a client of their own (`with(acks: 1)`) write to the same log. Close it at the end of the test.
    class BufferedProducer < Producer
      #: (?Config, ?bus: Notifications, ?topics: Hash[String, Integer]?, ?keep: bool, ?kafka: Hash[String, untyped])
      #:  -> void
      def initialize(config = Config.new, bus: Notifications.new, topics: nil, keep: true, kafka: {})
        super(config.freeze, bus: bus, native: Buffered, kafka: kafka)
        @log = Log.new(topics, keep: keep)
        BufferedClient.keep(name, @log)
      end

      # What was delivered (to a topic), in order; of transactions, the committed ones.
      #: (?String?) -> Array[Message]
      def messages(topic = nil) = @log.messages(topic)

      # Offsets that committed transactions marked: {subscription => {[topic, partition] => next offset}}
      #: () -> Hash[untyped, Hash[[String, Integer], Integer]]
      def marks = @log.marks

      # Forgets the messages.
      #: () -> self
      def clear
        @log.clear
        self
      end

      # The next messages (of a topic) fail for good. error: librdkafka's code or its name.
      #   producer.fail_next(:_MSG_TIMED_OUT, times: 2, topic: "orders")
      #: (Integer | Symbol, ?times: Integer, ?topic: String?) -> self
      def fail_next(error, times: 1, topic: nil)
        @log.fail_next(Testing.error(error), times, topic)
        self
      end

      # Kafka is away: deliveries stay open in the block, and what waits for them waits. Afterwards they are reported.
      # Without a block: until `release`.
      #: () ?{ () -> untyped } -> untyped
      def hold
        @log.hold
        return self unless block_given?

        begin
          yield
        ensure
          release
        end
      end

      #: () -> self
      def release
        @log.release
        self
      end

      # With so many messages on their way the queue is full: QueueFullError. nil: never.
      #: (Integer?) -> void
      def queue_limit=(count)
        @log.limit = count
      end

      private

      # The end of the process has nothing to send.
      def open_here? = false

      # A native poller, as config.polling may name one, hears nothing of what happens here.
      def poller(source) = Poller.shared(source)

      # For a variant: with the same log.
      def another(kafka) = super.tap { |made| BufferedClient.keep(made.name, @log) }
    end
  end
end
