# frozen_string_literal: true

require_relative "../errors"
require_relative "trends"

module Pelton
  class Web
    # The numbers of a day and a week of topics, from Kafka's offsets, so no process has to report. Thread-safe.
    class TopicTrends
      # Topics that are remembered: those whose pages were opened last.
      MOST = 50
      private_constant :MOST

      # The block makes the Trends of a topic.
      #: () { (String) -> Trends } -> void
      def initialize(&make)
        @make = make
        @lock = Mutex.new
        # {"orders" => Trends}, the one that was asked for last at the end. Under @lock.
        @all = {}
      end

      #: (String) -> Trends
      def of(name)
        found, left_out = @lock.synchronize do
          @all[name] = @all.delete(name) || @make.call(name)
          [@all[name], (@all.shift.last if @all.size > MOST)]
        end
        left_out&.close
        found
      end

      # Ends the threads.
      #: () -> void
      def close = @lock.synchronize { @all.values }.each(&:close)
    end

    # Asks Kafka where the partitions of a topic were at some times.
    #   TopicReading.new(app, "orders").each([1_764_300_000], stop) { |time, offsets| … }
    class TopicReading
      # Seconds for a question to Kafka. Most partitions, because a broker looks for each time in each of them.
      ASK = 5
      PARTITIONS = 500
      private_constant :ASK, :PARTITIONS

      #: (App, String) -> void
      def initialize(app, topic)
        @app = app
        @topic = topic
      end

      # Yields each time with the offset of each partition's next message then, until it should stop; nil: messages of
      # that time may be deleted. Raises KafkaError, and ConfigError for a topic with more partitions.
      #: (Array[Integer], Background::Stop) { (Integer, Hash[[String, Integer], Integer]?) -> void } -> void
      def each(times, stop)
        topic_partitions = topic_partitions()
        first, last = %i[beginning end].map { |position| offsets(topic_partitions, position) }
        times.each do |time|
          break if stop.stop?

          found = offsets(topic_partitions, Time.at(time)).to_h { |pair, offset| [pair, offset || last[pair]] }
          yield time, (found if known?(first, last, found))
        end
      end

      private

      def topic_partitions
        all = @app.admin.topics(@topic, timeout: ASK).fetch(@topic).partitions.select(&:leader)
        return all.map { |partition| [@topic, partition.number] } if all.size <= PARTITIONS

        problem = "has #{all.size} partitions, of #{PARTITIONS} at most for a day or a week"
        raise ConfigError.new("topic", @topic, problem)
      end

      def offsets(topic_partitions, position)
        @app.admin.offsets(topic_partitions.product([position]).to_h, committed: false, timeout: ASK)
      end

      # A partition that was at its first offset may have had older ones, which retention deleted. An empty partition
      # says nothing, unless all are empty.
      def known?(first, last, found)
        filled = first.keys.reject { |topic_partition| first[topic_partition] == last[topic_partition] }
        filled = first.keys if filled.empty?
        filled.none? { |pair| first[pair].to_i.positive? && found[pair] == first[pair] }
      end
    end

    # How many messages per second a topic got until some time: see Trends.
    class TopicSample
      # {[:produced] => 12.5}; empty: it is not known.
      attr_reader :values
      attr_reader :time
      # {["orders", 0] => 59}, or nil.
      attr_reader :offsets

      # before: the sample before, or nil.
      #: (Hash[[String, Integer], Integer]?, Integer, TopicSample?) -> TopicSample
      def self.of(offsets, time, before) = new(offsets, time, before)

      def initialize(offsets, time, before)
        @time = time
        @offsets = offsets
        @values = offsets && before&.offsets ? { [:produced] => rate(before) }.freeze : {}.freeze
        freeze
      end

      private

      # A partition that has come since counts with all that it got.
      def rate(before)
        @offsets.sum { |pair, offset| [offset - before.offsets.fetch(pair, 0), 0].max }.fdiv(@time - before.time)
      end
    end
  end
end
