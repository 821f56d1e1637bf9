# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/native"
require_relative "delivery"
require_relative "log"

module Pelton
  module Testing
    # Replaces a native producer and keeps messages in a Log instead of sending them. The native code checks the
    # messages and chooses their partitions. Thread-safe.
    class BufferedClient
      # {name of the client => Log}, by identity of the name: logs that a BufferedProducer reads.
      LOGS = ObjectSpace::WeakMap.new
      # A delivery cannot have this many messages.
      TOO_MANY = 524_288
      private_constant :LOGS, :TOO_MANY

      class << self
        #: (String, Log) -> void
        def keep(name, log) = LOGS[name] = log
        #: (String) -> Log
        def log(name) = LOGS[name] || Log.new

        # See Native::Producer.
        def check(...) = Native::Producer.check(...)
        def partition(...) = Native::Producer.partition(...)
      end

      # polling: as for the native producer. Its poller publishes failures that no code waits for, if it is Buffered's.
      #: (String, Hash[String, String], ?Hash[Symbol, untyped]) -> void
      def initialize(name, options, polling = {})
        Native.check_options(options)
        @name = name
        @log = self.class.log(name)
        @partitioner = options["partitioner"] || "consistent_random"
        @largest = Integer(options["message.max.bytes"] || 1_000_000)
        @poller = polling[:poller]
        @closed = false
        @connected = true
        @published_reports = [false, false]
        @sent = 0
        # {["orders", 3, :UNKNOWN_TOPIC_OR_PART] => number of failed messages that no code waited for}
        @failures = Hash.new(0)
      end

      # Number of messages.
      attr_reader :sent

      # Which reports its poller publishes.
      def publish_reports(acknowledged, purged) = @published_reports = [acknowledged, purged]

      # Its messages take no time.
      def count_times(_times) = nil

      def produce(topic, payload, key, partition, timestamp, headers, queue_timeout, awaited = false) # rubocop:disable Metrics/ParameterLists
        message = { topic: topic, payload: payload, key: key, partition: partition, timestamp: timestamp,
                    headers: headers }
        self.class.check(message)
        open!
        refusal = refusal(message) and raise refusal
        raise QueueFullError.new(topic, queue_timeout) unless @log.room?

        delivery = new_delivery([topic])
        delivery.expect_wait if awaited
        send_one(message, delivery, 0)
        delivery
      end

      def produce_many(messages, queue_timeout, awaited = false)
        Clock.check(queue_timeout)
        check_all(messages)
        return if messages.any? { |message| message.values_at(:label, :partition_key).any? }

        open!
        delivery = new_delivery(messages.map { |message| message[:topic] })
        delivery.expect_wait if awaited
        yield delivery if block_given?
        messages.each_with_index do |message, index|
          unless @log.room?
            refuse_rest(delivery, index)
            delivery.expect_no_wait
            raise QueueFullError.new(message[:topic], queue_timeout, delivery)
          end
          refusal = refusal(message)
          refusal ? report(delivery, index, refusal.partition, nil, refusal) : send_one(message, delivery, index)
        end
        delivery
      end

      def partition_count(topic, timeout)
        Clock.check(timeout)
        open!
        @log.partition_count(topic) || raise(Native.error(3))
      end

      def flush(timeout) = @log.flushed?(timeout)
      def await_reports(timeout) = flush(timeout)
      def failures = @failures.map { |fact, count| [*fact, count] }
      def end_with_process(*) = nil
      def pending = @log.pending
      def purge = @log.purge
      def last_error = nil
      def fatal_error = nil
      def gap? = false
      def closed? = @closed

      # There are no connections: a disconnect only changes the state.
      def disconnect_idle(_seconds) = nil
      def connected? = @connected && !@closed

      def disconnect(timeout)
        Clock.check(timeout)
        return false unless connected? && pending.zero?

        @connected = false
        true
      end

      def inspect = "#<#{self.class} #{@name}#{" closed" if @closed}>"

      def close(timeout)
        Clock.check(timeout)
        return 0 if @closed

        @closed = true
        undelivered = flush(timeout) ? 0 : pending
        purge
        undelivered
      end

      # Accepted, for a config with `oauth`.
      def set_oauth_token(*) = nil
      def set_oauth_failure(*) = nil

      # --- transactions ---

      def begin_transaction(timeout)
        Clock.check(timeout)
        open!
        @log.begin
      end

      def commit_transaction(timeout)
        open!
        raise Native.error(-185) unless @log.flushed?(timeout)

        @log.commit
      end

      def abort_transaction(_timeout, _ack_wait) = @log.abort
      def send_offsets(offsets, subscription, _timeout) = @log.send_offsets(offsets, subscription)

      private

      def open!
        raise ClosedError, "producer #{@name}" if @closed

        @connected = true
      end

      def check_all(messages)
        if messages.size >= TOO_MANY
          raise InvalidMessageError.new("batch size", messages.size, "fewer than #{TOO_MANY} messages per call")
        end

        messages.each_with_index do |message, index|
          self.class.check(message)
        rescue InvalidMessageError => e
          raise e.at(index)
        end
      end

      # The error with which librdkafka would refuse the message at once, or nil.
      def refusal(message)
        topic, partition = message.values_at(:topic, :partition)
        code = if message[:payload].to_s.bytesize + message[:key].to_s.bytesize > @largest then 10
               elsif !@log.topic?(topic) then -188
               elsif partition && partition >= @log.partition_count(topic) then -190
               end
        code && failure(Native.error(code), topic, partition)
      end

      def failure(error, topic, partition)
        DeliveryError.new(error.code, error.name, error.reason, error.fatal?, error.retriable?, topic, partition)
      end

      def refuse_rest(delivery, index)
        (index...delivery.size).each do |position|
          delivery.report(position, nil, nil, failure(Native.error(-184), delivery.topic, nil))
        end
      end

      def new_delivery(topics)
        Delivery.new(topics) do |delivery, position, error|
          @failures[[error.topic, error.code, error.name]] += 1
          push(:delivery_failed, *error_fields(error), delivery.id, position)
        end
      end

      def error_fields(error) = [error.code, error.name, error.reason, error.topic, error.partition]

      def push(kind, *fields)
        @poller.push([kind, @name, *fields, 0.0]) if @poller.respond_to?(:push)
      end

      def push_report(topic, partition, offset, error, *handle)
        acknowledged, purged = @published_reports
        if error.nil? then push(:acknowledged, topic, partition, offset, 0.0, *handle) if acknowledged
        elsif error.purged? then push(:purged, *error_fields(error), *handle) if purged
        end
      end

      def report(delivery, index, partition, offset, error)
        if delivery.publishes_reports?
          fields = error ? error_fields(error) : [0, :NO_ERROR, "", delivery.topic_of(index), partition]
          push(:reported, *fields, offset || -1001, 0.0, delivery.id, index)
        end
        delivery.report(index, partition, offset, error)
      end

      def send_one(message, delivery, index)
        topic, key, partition = message.values_at(:topic, :key, :partition)
        partition = chosen(topic, key) if partition.nil? || partition.negative?
        @sent += 1
        @log.append(message, partition) do |offset, error|
          error &&= failure(error, topic, partition)
          push_report(topic, partition, offset, error, delivery.id, index)
          report(delivery, index, partition, offset, error)
        end
      end

      def chosen(topic, key)
        count = @log.partition_count(topic)
        (key && self.class.partition(@partitioner, key, count)) || 0
      end
    end
  end
end
