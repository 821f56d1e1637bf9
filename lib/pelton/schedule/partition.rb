# frozen_string_literal: true

require_relative "../errors"
require_relative "../producer"
require_relative "ids"
require_relative "index"
require_relative "recurring"

module Pelton
  class Schedule
    # One partition of the schedule topic that this process serves: its entries, and the producer that sends those that
    # are due. The transactional id belongs to the partition. So its new owner ends what a killed one left open, and
    # fences one that still runs. Only then it reads the log up to its end, and nothing can be added behind its back.
    # One thread uses it. After any error it is of no use: close it.
    class Partition
      # Most entries, and bytes of payloads, of one transaction.
      BATCH = 500
      BYTES = 1_000_000
      # Seconds until a message that could not be sent is tried again.
      RETRY = 60
      # Seconds for the end of the producer.
      CLOSE = 5
      # Options that transactions need, whatever the app's producers have.
      SAFE = { "enable.idempotence" => true, "acks" => "all", "message.max.bytes" => 1_000_000_000 }.freeze
      private_constant :BATCH, :BYTES, :RETRY, :CLOSE, :SAFE

      # recurring: the messages that the app declares, of all partitions. The block returns the offset after
      # the last record, and is called when no other process can write more.
      #: (String, Integer, Config, bus: Notifications, native: Module?, ?recurring: Array[Recurring])
      #:   { () -> Integer } -> void
      def initialize(topic, number, config, bus:, native:, recurring: [])
        @topic = topic
        @number = number
        @config = config
        @bus = bus
        @options = { bus: bus, native: native,
                     kafka: { **SAFE, "transactional.id" => "#{topic}/schedule/#{number}" } }
        @recurring = recurring
        @owner = config.group_id || config.client_id
        @index = Index.new
        @producer = nil
        # Records that the next transaction writes, to keep the log true.
        @repairs = []
        @loaded = false
        @began = Clock.now
        begin
          open
          @end = yield
        rescue Exception # rubocop:disable Lint/RescueException -- nobody else could close it
          close
          raise
        end
      end

      # Takes the records of a batch.
      #: (Batch) -> void
      def take(batch)
        position = 0
        batch.each do |message|
          position = message.offset + 1
          needed, entry = @index.read(message)
          replaced(message.raw_key)
          case needed
          when :foreign then report(message.raw_key, "#{@topic}/#{@number} offset #{message.offset}", "it is no entry")
          when :again then repair(entry.id, entry.record(@topic))
          when :end then repair(entry.id, entry.tombstone(@topic))
          end
        end
        read_to(position)
      end

      # Everything before this offset is read. The end of the log reports it, and so does each batch: a reader never
      # reaches the end of a log to which others write all the time.
      #: (Integer) -> void
      def read_to(offset)
        return if @loaded || offset < @end

        @index.loaded
        declare
        @loaded = true
        @bus.publish("schedule.loaded", topic: @topic, partition: @number, messages: @index.size,
                                        seconds: Clock.now - @began)
      end

      # When something is to do, in milliseconds since 1970; nil: nothing is.
      #: () -> Integer?
      def next_at
        return unless @loaded

        @repairs.empty? ? @index.next_at : 0
      end

      # Sends what is due, at most one transaction.
      #: () -> void
      def promote
        return unless @loaded

        now = (Clock.wall * 1000).floor
        entries = sendable(now)
        return if entries.empty? && @repairs.empty?

        send_all(entries, now)
      end

      #: (?Numeric) -> void
      def close(timeout = CLOSE) = @producer&.close(timeout: timeout)

      private

      # Ends the transaction of an earlier owner, and fences it.
      def open
        @producer = Producer.new(@config, **@options)
        @producer.init_transactions
      end

      # Writes the recurring messages of this partition as the app declares them, and ends those that it does not.
      def declare
        declared = @recurring.to_h { |recurring| [recurring.id(@owner), recurring] }
        declared.select! { |id, _| Ids.partition(id, @producer.partitions, @topic, @config.queue_timeout) == @number }
        declared.each do |id, recurring|
          entry = recurring.entry(id, @number, @index[id])
          repair(id, entry.record(@topic)) if entry
        end
        own = @index.ids.select { |id| Recurring.of?(@owner, id) }
        (own - declared.keys).each { |id| repair(id, @index[id].tombstone(@topic)) }
      end

      # Until the record is read back, the entry is not sent.
      def repair(id, record)
        @index.delete(id)
        replaced(id)
        @repairs << record
      end

      # A later record of the same id counts instead. Perhaps an earlier owner has already written the repair, and the
      # message was sent.
      def replaced(id)
        @repairs.reject! { |record| record[:key] == id } if @repairs.any?
      end

      def sendable(now)
        entries = []
        bytes = 0
        while entries.size < BATCH && bytes < BYTES && (entry = @index.take(now))
          problem = problem(entry)
          next defer(entry, problem, now) if problem

          entries << entry
          bytes += entry.payload.to_s.bytesize
        end
        entries
      end

      # Why this message cannot be sent now; nil: it can.
      def problem(entry)
        Recurrence.new(entry.recurring) if entry.recurring
        count = @producer.partition_count(entry.topic)
        "it is for partition #{entry.partition}, and #{entry.topic} has #{count}" if entry.partition.to_i >= count
      rescue DeliveryError, ConfigError => e
        e.message
      end

      def send_all(entries, now)
        commit(entries, now)
        done(entries, now)
      rescue KafkaError, InvalidMessageError => e
        raise unless refused?(e)

        reopen
        return repair_alone(entries, now, e) if @repairs.any?
        return defer(entries.first, e.message, now) if entries.size == 1

        entries.each { |entry| send_all([entry], now) }
      end

      # A repair that is refused each time must not stop the others: it is reported, and left to the next owner.
      def repair_alone(entries, now, error)
        repairs = @repairs
        @repairs = []
        return report(repairs.first[:key], @topic, error.message) if entries.empty? && repairs.one?

        repairs.each do |record|
          @repairs = [record]
          send_all([], now)
        end
        send_all(entries, now) if entries.any?
      end

      # Will this message be refused each time, as it is, or as long as this app may not write to its topic?
      def refused?(error)
        error.is_a?(InvalidMessageError) || error.message_refused? || error.name == :TOPIC_AUTHORIZATION_FAILED
      end

      def commit(entries, now)
        rows = @repairs + entries.flat_map { |entry| [entry.message, after(entry, now)] }
        @producer.transaction { |tx| stored(tx.produce_many_async(rows)) }
        @repairs = []
      end

      # What the log has after the message was sent.
      def after(entry, now)
        entry.recurring ? Recurring.next(entry, now).record(@topic) : entry.tombstone(@topic)
      end

      # Messages that were dropped with their transaction do not say why: the commit does.
      def stored(delivery)
        delivery.wait
      rescue KafkaError => e
        raise unless e.purged?
      end

      def reopen
        close
        open
      end

      def done(entries, now)
        return if entries.empty?

        entries.each { |entry| @index.delete(entry.id) }
        lag = (now - entries.map(&:at_ms).min) / 1000.0
        @bus.publish("schedule.promoted", topic: @topic, partition: @number, messages: entries.size, lag: lag)
      end

      def defer(entry, reason, now)
        @index.defer(entry, now + (RETRY * 1000))
        report(entry.id, entry.topic, reason, RETRY)
      end

      def report(*facts)
        @bus.publish("error.occurred", error: ScheduledMessageFailed.new(*facts), source: "schedule", topic: @topic,
                                       partition: @number)
      end
    end
  end
end
