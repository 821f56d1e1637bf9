# frozen_string_literal: true

require_relative "../config"
require_relative "../errors"
require_relative "../producer"
require_relative "status_log"

module Pelton
  class DeadLetters
    # The right to redrive and delete letters of one topic, and its transactions. The transactional id belongs to the
    # dead-letter topic. So a new session ends what a killed one left open, and fences one that still runs. Only after
    # that it reads which letters are done: nothing can be added behind its back. One thread uses it.
    class Session
      # The start of the transactional id. It is the same in all apps: otherwise they would not fence each other.
      ID = "pelton.dead-letters."
      # Seconds for the end of the producer.
      CLOSE = 10
      # Tombstones per transaction.
      EXPIRED = 1_000
      # Options that transactions need, whatever the app's producers have. A letter may have any size.
      SAFE = { "enable.idempotence" => true, "acks" => "all", "message.max.bytes" => 1_000_000_000 }.freeze
      private_constant :ID, :CLOSE, :EXPIRED, :SAFE

      # The letters that are done.
      #: () -> StatusLog
      attr_reader :log

      # The block reads the log. kafka: options of librdkafka.
      #: (String, Config, Topics, bus: Notifications, native: Module?, kafka: Hash[String, untyped])
      #:   { () -> StatusLog } -> void
      def initialize(topic, config, topics, bus:, native:, kafka:, &read)
        @topic = topic
        # A client that replaced another would not know what happened in between.
        @config = config.without_replacement
        @topics = topics
        @options = { bus: bus, native: native, kafka: { **kafka, **SAFE, "transactional.id" => "#{ID}#{topic}" } }
        @read = read
        @producer = nil
        # Topic, partition and offset of the last record.
        @last = nil
      end

      # Takes the right. Close the session also if this raises.
      #: () -> void
      def start
        @topics.create_status_topic(@topic)
        open
        forget_expired
      end

      # Sends messages and records in one transaction. Raises DeadLettersFenced if another session began.
      #: (Array[Hash[Symbol, untyped]]) -> void
      def commit(messages)
        delivery = nil
        own { @producer.transaction { |tx| stored(delivery = tx.produce_many_async(messages)) } }
        @last = delivery.reports.last.first(3)
      end

      # After a failed transaction, whose outcome may be unknown: ends it and reads the log again.
      #: () -> void
      def reopen
        close
        open
      end

      # Waits until readers see what was committed.
      #: () -> void
      def await_readers = @last && @topics.await_visible(*@last)

      #: () -> void
      def close = @producer&.close(timeout: CLOSE)

      private

      # Messages that were dropped with their transaction do not say why: the commit does.
      def stored(delivery)
        delivery.wait
      rescue KafkaError => e
        raise unless e.purged?
      end

      def open
        @producer = Producer.new(@config, **@options)
        own { @producer.init_transactions }
        @log = @read.call
      end

      def own
        yield
      rescue KafkaError => e
        raise e.fenced? ? DeadLettersFenced.new(@topic) : e
      end

      # Kafka deleted these letters, so their records are of no use.
      def forget_expired
        status = StatusLog.topic(@topic)
        @log.expired(@topics.oldest(@topic)).each_slice(EXPIRED) do |places|
          commit(places.map { |place| { topic: status, key: place, payload: nil } })
        end
      end
    end
  end
end
