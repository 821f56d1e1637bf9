# frozen_string_literal: true

require "pelton/app"

module Fakes
  # Pelton::Delivery's methods.
  class Delivery
    attr_reader :topic, :partition, :offset, :error, :size, :waited

    attr_writer :reports

    def id = object_id
    def done? = true
    def settled? = true
    def publish_reports = nil
    def expect_wait = nil
    def expect_no_wait = nil
    def seen = nil
    def reports = @reports || Array.new(@size) { [@topic, @partition, @offset, @error] }

    def initialize(topic, partition, offset, error: nil, size: 1)
      @topic = topic
      @partition = partition
      @offset = offset
      @error = error
      @size = size
    end

    def wait(timeout: nil)
      @waited = timeout
      raise @error if @error

      self
    end
  end

  # Native::Producer's methods; keeps its messages.
  class Producer
    include Tokens

    attr_reader :name, :config, :polling, :calls, :messages, :idle, :closed
    # on_send: called with the rows and the delivery of produce_many; on_count: gives partition_count's answer or error.
    attr_writer :failures
    attr_accessor :undelivered, :flushes, :on_send, :on_count

    def initialize(name, config, polling = nil)
      @name = name
      @polling = polling
      @config = config
      @calls = []
      @messages = []
      @undelivered = 0
      @closed = false
      @connected = true
      @on_count = ->(_) { 4 }
    end

    def produce(*arguments)
      raise ::Pelton::ClosedError, @name if @closed

      @connected = true
      @calls << arguments
      @messages << arguments.first(6)
      Delivery.new(arguments[0], 0, @messages.size - 1)
    end

    def produce_many(rows, queue_timeout, _awaited = nil)
      return if rows.any? { |row| row[:label] || row[:partition_key] }

      @calls << [:many, rows, queue_timeout]
      delivery = Delivery.new(nil, nil, nil, size: rows.size)
      yield delivery if block_given?
      @on_send&.call(rows, delivery)
      @messages.concat(rows.map { |row| row.values_at(:topic, :payload, :key, :partition, :timestamp, :headers) })
      delivery
    end

    # The two class methods of Native::Producer.
    def self.check(message)
      return if message[:topic].is_a?(String)

      raise ::Pelton::InvalidMessageError.new(:topic, message[:topic], "a String")
    end

    def self.partition(partitioner, key, count) = partitioner == "random" ? nil : key.sum % count

    def partition_count(topic, timeout)
      @calls << [:partition_count, topic, timeout]
      found = @on_count.call(topic)
      found.is_a?(Exception) ? raise(found) : found
    end

    def purge = @calls << [:purge]

    def flush(timeout)
      @flushes = [*@flushes, timeout]
      @undelivered.zero?
    end

    def await_reports(timeout) = flush(timeout)
    def failures = @failures || []
    def end_with_process(*) = nil
    def pending = @undelivered
    def sent = @messages.size
    def last_error = nil
    def disconnect_idle(limit) = @idle = limit
    def publish_reports(*) = nil
    def count_times(*) = nil
    def connected? = @connected && !@closed

    def disconnect(_timeout)
      return false if @closed || !@connected || pending.positive?

      @connected = false
      true
    end

    def close(timeout)
      @closed = timeout
      @undelivered
    end
  end
end
