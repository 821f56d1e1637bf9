# frozen_string_literal: true

require_relative "../deserializing"
require_relative "../../errors"

module Pelton
  module Parallel
    # Replaces a topic's deserializer, so that an engine deserializes payloads before they are read. `Message#payload`
    # calls this object. Messages keep the values that the engine made. If a value is missing (after an error, a killed
    # worker, a cancel or a timeout), the deserializer runs when the payload is read. So values and errors are the same
    # as without an engine.
    class Decoding
      # The job that workers run. A deserializer that reads the payload gets it as decoded by `decode`.
      class Job
        #: (^(Message) -> untyped) -> void
        def initialize(deserializer)
          @deserializer = deserializer
          freeze
        end

        #: (Message) -> untyped
        def call(message) = Deserializing.call(@deserializer, message)
      end

      # A deserializer whose payloads are frozen at the top level, for topics that may use Ractors. A Ractor's payloads
      # are deeply frozen. So code that changes a payload fails no matter where it was made. To freeze deeply here would
      # cost more than Ractors save.
      class Frozen
        #: (^(Message) -> untyped) -> void
        def initialize(deserializer)
          @deserializer = deserializer
          freeze
        end

        #: (Message) -> untyped
        def call(message) = @deserializer.call(message).freeze
      end

      #: (untyped, Pool | Auto, topic: String, bus: Notifications, timeout: Numeric) -> void
      def initialize(deserializer, engine, topic:, bus:, timeout:)
        @deserializer = deserializer
        @job = Job.new(deserializer)
        @engine = engine
        @topic = topic
        @bus = bus
        @timeout = timeout
        @lock = Mutex.new
        # Unfinished work, guarded by @lock: {message => [future, index]} and {future => [topic, partition]}.
        @pending = {}.compare_by_identity
        @futures = {}.compare_by_identity
        # true if an error was published that the deserializer does not work in a Ractor.
        @reported = false
      end

      # The payload that a worker made or is making. Without one, calls the deserializer. Callable from every thread.
      #: (Message) -> untyped
      def call(message)
        future, index = @lock.synchronize { @pending[message] } unless @pending.empty?
        value, error = future&.at(index)
        future && !error ? value : @deserializer.call(message)
      end

      # Called on the listener's thread before the batch's jobs are queued. Never waits.
      #: (Messages) -> void
      def dispatch(batch)
        return unless @engine.worth?(batch.size)

        messages = batch.messages.reject(&:tombstone?).freeze
        return unless @engine.worth?(messages.size)

        future = @engine.dispatch(messages, @job, timeout: @timeout) { |done| done(done, messages) }
        return unless future.ahead?

        @lock.synchronize do
          @futures[future] = batch.topic_partition
          messages.each_with_index { |message, index| @pending[message] = [future, index].freeze }
        end
        forget(future, messages) if future.done? # it finished before it was added
      rescue StandardError => e # then payloads are deserialized when they are read
        @bus.publish("error.occurred", error: e, source: "parallel", topic: @topic)
      end

      # Cancels the unfinished work of this partition.
      #: (String, Integer) -> void
      def cancel(topic, partition)
        ours = [topic, partition]
        futures = @lock.synchronize { @futures.filter_map { |future, owner| future if owner == ours } }
        futures.each(&:cancel)
      end

      def inspect = "#<#{self.class} of #{@topic}, #{@engine.inspect}>"

      private

      # Runs on the thread that finished the work.
      def done(future, messages)
        errors = []
        future.each_with_index { |(value, error), index| error ? errors << error : keep(messages[index], value) }
        failed(errors) if errors.any?
      ensure
        forget(future, messages)
      end

      def keep(message, value)
        message.keep(value)
      rescue DecodeError
        nil # the message already has a result: the error that its deserializer returned
      end

      def forget(future, messages)
        @lock.synchronize do
          @futures.delete(future)
          messages.each { |message| @pending.delete(message) }
        end
      end

      # Payloads of cancelled work are not read. The first error that says that the deserializer does not work in a
      # Ractor is published. Other errors are raised again when the payload is read.
      def failed(errors)
        left = errors.reject { |error| error.is_a?(CancelledError) }
        @bus.publish("parallel.fell_back", topic: @topic, count: left.size, error: left.first) if left.any?
        unfit = left.find { |error| error.is_a?(WorkError) && error.error_class.start_with?("Ractor::") }
        return if @reported || !unfit

        @reported = true
        @bus.publish("error.occurred", error: unfit, source: "deserializer", topic: @topic)
      end
    end
  end
end
