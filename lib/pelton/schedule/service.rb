# frozen_string_literal: true

require_relative "../background"
require_relative "../runtime/clock"
require_relative "../subscription"
require_relative "partition"

module Pelton
  class Schedule
    # Sends the messages of the schedule topic when they are due. The processes of all servers share its partitions by
    # the group that has the topic's name. One thread runs it. It keeps no offsets: each new owner of a partition reads
    # it from the beginning. After an error it is closed, and a new one starts from what Kafka has.
    class Service
      # Longest wait, in seconds: for a stop, and for a change of the wall clock.
      LONGEST = 0.5
      # Records per batch.
      BATCH = 100
      CLOSE = 5
      # A long log is read with little memory beside the entries that wait.
      GROUP = { "auto.offset.reset" => "earliest", "isolation.level" => "read_committed",
                "enable.partition.eof" => true, "queued.max.messages.kbytes" => 128,
                "fetch.message.max.bytes" => 131_072 }.freeze
      # A killed member is replaced after this time, unless config.kafka names another. The broker knows it if
      # group.protocol is consumer.
      SESSION = { "session.timeout.ms" => 10_000 }.freeze
      PROTOCOL = "group.protocol"
      INSTANCE = "group.instance.id"
      private_constant :LONGEST, :BATCH, :CLOSE, :GROUP, :SESSION, :PROTOCOL, :INSTANCE

      # process: see App#start.
      #: (Config, bus: Notifications, ?recurring: Array[Recurring], ?native: Module?, ?process: Integer?) -> void
      def initialize(config, bus:, recurring: [], native: nil, process: nil)
        # Batches that are ready take memory, too.
        @config = config.dup.tap { |copy| copy.prefetch_batches = 1 }
        @topic = config.schedule_topic
        @recurring = recurring
        @bus = bus
        @native = native
        @process = process
        # {0 => Partition}: those that this process has.
        @partitions = {}
        @subscription = nil
      end

      # Serves until it should stop. Raises what ended it.
      #: (Background::Stop) -> void
      def run(stop)
        turn(wait) until stop.stop?
      ensure
        close(stop)
      end

      # Joins the group.
      #: () -> self
      def open
        @subscription ||= Subscription.new(@config, group_id: @topic, max_messages: BATCH, bus: @bus, native: @native,
                                                    kafka: options).tap { |made| made.subscribe([@topic]) }
        self
      end

      # Handles one event, which it waits for up to `timeout` seconds, and sends what is due. Returns true if there was
      # something to do.
      #: (Numeric) -> bool
      def turn(timeout)
        open
        kind, *facts = @subscription.poll(timeout)
        handle(kind, facts)
        due = @partitions.each_value.select { |partition| due?(partition) }
        due.each(&:promote)
        !kind.nil? || due.any?
      end

      # Seconds until something is due; nil: nothing is.
      #: () -> Float?
      def next_in
        at = @partitions.each_value.filter_map(&:next_at).min
        [(at / 1000.0) - Clock.wall, 0.0].max if at
      end

      # stop: the one that ended `run`.
      #: (?Background::Stop) -> void
      def close(stop = Background::Stop.new)
        @partitions.each_value { |partition| partition.close(stop.time_for(CLOSE)) }
        @partitions.clear
      ensure
        @subscription&.close(stop.time_for(CLOSE))
        @subscription = nil
      end

      private

      def wait = [next_in, LONGEST].compact.min

      def due?(partition) = partition.next_at&.<=((Clock.wall * 1000).floor)

      def options
        broker_decides = @config.kafka[PROTOCOL].to_s == "consumer"
        options = { **(broker_decides ? {} : SESSION), **@config.kafka.slice(*SESSION.keys), **GROUP }
        instance = @config.kafka[INSTANCE]
        instance && @process ? { **options, INSTANCE => "#{instance}-#{@process}" } : options
      end

      def handle(kind, facts)
        case kind
        when :assigned then facts.first.each { |topic, number| add(topic, number) }
        when :revoked then revoke(*facts)
        when :batch then take(facts.first)
        when :eof then @partitions[facts[1]]&.read_to(facts[2])
        when :error then failed(*facts)
        when :closed then raise ClosedError, @subscription.inspect
        end
      end

      def add(topic, number)
        @partitions.delete(number)&.close
        options = { recurring: @recurring, bus: @bus, native: @native }
        @partitions[number] = Partition.new(topic, number, own_config, **options) do
          @subscription.watermarks(topic, number).last
        end
      end

      # A client that replaced another would not know what happened in between.
      def own_config = @own_config ||= @config.without_replacement

      def revoke(token, partitions, _lost)
        partitions.each { |_, number| @partitions.delete(number)&.close }
      ensure
        @subscription.revoked(token)
      end

      def take(batch)
        @partitions[batch.partition]&.take(batch)
      ensure
        batch.release
      end

      # librdkafka repairs by itself what is not fatal.
      def failed(error, topic, partition)
        raise error if error.fatal?

        @bus.publish("error.occurred", error: error, source: "kafka", topic: topic, partition: partition)
      end
    end
  end
end
