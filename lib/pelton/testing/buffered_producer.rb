# frozen_string_literal: true

require_relative "../config"
require_relative "../producer"
require_relative "buffered"

module Pelton
  module Testing
    # A Pelton::Producer that sends nothing and keeps the messages for your test. Everything else is the producer's own
    # code (checks, middleware, buffer, labels, transactions, errors, events), so a test sees what production would.
    #   producer = Pelton::Testing::BufferedProducer.new
    #   Checkout.new(producer).call
    #   producer.messages("orders").map(&:payload) # => [{"id" => 7}]
    # topics: {"orders" => 4}, names and numbers of partitions; other topics do not exist then. Without it, every topic
    # exists and has one partition. keep: false forgets messages at once, for a process that should send nothing (a
    # console, a load test). Variants with a client of their own (`with(acks: 1)`) write to the same log. Close it at
    # the end of the test. Thread-safe.
    class BufferedProducer < Producer
      #: (?Config, ?bus: Notifications, ?topics: Hash[String, Integer]?, ?keep: bool, ?kafka: Hash[String, untyped],
      #:  ?middleware: Producer::Middleware) -> void
      def initialize(config = Config.new, bus: Notifications.new, topics: nil, keep: true, kafka: {},
                     middleware: Middleware.new)
        super(config.freeze, bus: bus, native: Buffered, kafka: kafka, middleware: middleware)
        @log = Log.new(topics, keep: keep)
        BufferedClient.keep(name, @log)
      end

      # Returns the delivered messages, of one topic or of all, in order; of transactions, the committed ones.
      #   producer.messages("shipped").first.key # => "7"
      #: (?String?) -> Array[Message]
      def messages(topic = nil) = @log.messages(topic)

      # Returns the offsets that committed transactions marked: {subscription => {["orders", 0] => 43}}
      #   producer.marks
      #: () -> Hash[untyped, Hash[[String, Integer], Integer]]
      def marks = @log.marks

      # Forgets the messages.
      #   producer.clear
      #: () -> self
      def clear
        @log.clear
        self
      end

      # Lets the next messages fail, of one topic or of all. error: librdkafka's code or name; times: how many messages.
      # Raises ConfigError for an unknown error.
      #   producer.fail_next(:_MSG_TIMED_OUT, times: 2, topic: "orders")
      #: (Integer | Symbol, ?times: Integer, ?topic: String?) -> self
      def fail_next(error, times: 1, topic: nil)
        @log.fail_next(Testing.error(error), times, topic)
        self
      end

      # Delivers nothing while the block runs, as if Kafka were down: whatever waits for a delivery keeps waiting. After
      # the block the deliveries are reported. Without a block: until `release`.
      #   producer.hold { assert_raises(Pelton::WaitTimeout) { checkout.call } }
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

      # Ends `hold`: reports the deliveries that were held back.
      #   producer.release
      #: () -> self
      def release
        @log.release
        self
      end

      # Sets the size of the queue: with this many undelivered messages, produce raises QueueFullError. nil: no limit.
      #   producer.queue_limit = 10
      #: (Integer?) -> void
      def queue_limit=(count)
        @log.limit = count
      end

      private

      # At process exit there is nothing to send.
      def open_here? = false

      # A variant of this producer, with the same log.
      def another(kafka) = super.tap { |made| BufferedClient.keep(made.name, @log) }
    end
  end
end
