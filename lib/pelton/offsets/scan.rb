# frozen_string_literal: true

require_relative "../routing/condition"
require_relative "../runtime/clock"
require_relative "../subscription"

module Pelton
  module Offsets
    # Reads ranges of offsets with a client of its own, until they are read or a limit is reached.
    #   Scan.new(app, ["orders"]).run({ ["orders", 0] => 40...59 }, seconds: 5) { |message| p message.offset }
    class Scan
      KAFKA = { "enable.partition.eof" => true, "fetch.wait.max.ms" => 50 }.freeze
      # Seconds for the end of the client.
      CLOSE = 5
      private_constant :KAFKA, :CLOSE

      # Bytes of the messages that were read, also of those that a filter dropped.
      #: () -> Integer
      attr_reader :bytes
      # {["orders", 0] => 59}: where the logs ended that were read to their end.
      #: () -> Hash[[String, Integer], Integer]
      attr_reader :ends
      # {["orders", 0] => 50}: up to which offset it has looked.
      #: () -> Hash[[String, Integer], Integer]
      attr_reader :reached

      # where: a condition of Routing::Condition, for all topics. format: what these topics are decoded with, by the
      # names of Subscription's options. kafka: more options of librdkafka.
      #: (App, Array[String], ?where: Array[untyped]?, ?format: Hash[Symbol, untyped],
      #:  ?kafka: Hash[String, String]) -> void
      def initialize(app, topics, where: nil, format: {}, kafka: {})
        @app = app
        @kafka = { **KAFKA, **kafka }
        @ends = {}
        @reached = {}
        @where = where
        # Open during `keep`.
        @subscription = nil
        @options = { where: where, **format }.compact.transform_values { |option| topics.product([option]).to_h }
        @bytes = 0
      end

      # Yields the messages of these ranges for which the condition holds. most: it leaves a partition after the batch
      # with that many of them. Returns why it ended early (:time or :bytes), or nil. Raises KafkaError.
      #: (Hash[[String, Integer], Range[Integer]], seconds: Numeric, ?bytes: Numeric, ?most: Numeric)
      #:   { (Message) -> void } -> Symbol?
      def run(ranges, seconds:, bytes: Float::INFINITY, most: Float::INFINITY, &block)
        left = ranges.reject { |_, range| range.size.zero? }
        return if left.empty?

        @reached = left.transform_values(&:begin)
        @wanted = Hash.new(most)
        keep { read(left, Clock.deadline(seconds), @bytes + bytes, &block) }
      end

      # Every `run` within the block uses the same client.
      #: () { () -> untyped } -> untyped
      def keep
        return yield if @subscription

        begin
          @subscription = Subscription.new(@app.config, group_id: nil, kafka: @kafka, **@options)
          yield
        ensure
          @subscription&.close(CLOSE)
          @subscription = nil
        end
      end

      private

      def read(left, deadline, most, &block)
        @subscription.assign(left.map { |topic_partition, range| [*topic_partition, range.begin] })
        until left.empty?
          return :time if Clock.left(deadline).zero?
          return :bytes if @bytes >= most

          take(left, deadline, &block)
        end
      end

      def take(left, deadline, &block)
        kind, *facts = @subscription.poll(Clock.left(deadline))
        case kind
        when :batch then add(facts.first, left, &block)
        when :eof then at_end(facts.first(2), facts.last, left)
        when :error then failed(facts.first)
        end
      end

      def at_end(pair, offset, left)
        @ends[pair] = offset
        range = left.delete(pair)
        @reached[pair] = [offset, range.end].min if range
      end

      def add(batch, left)
        pair = batch.topic_partition
        @bytes += batch.bytes
        range = left[pair] or return batch.release
        batch.each do |message|
          next unless range.cover?(message.offset) && admitted?(message)

          @wanted[pair] -= 1
          yield message
        end
        @reached[pair] = [batch.last_offset + 1, range.end].min
        finish(pair, left) if @reached[pair] == range.end || @wanted[pair] <= 0
        batch.release
      end

      # Native threads decide first; what they leave undecided is decided here.
      def admitted?(message)
        @where.nil? || !message.undecided? || Routing::Condition.answer(@where, message) == true
      end

      # What comes after the range is not needed.
      def finish(topic_partition, left)
        left.delete(topic_partition)
        @subscription.pause([topic_partition])
      end

      def failed(error)
        raise error unless error.retriable?
      end
    end
  end
end
