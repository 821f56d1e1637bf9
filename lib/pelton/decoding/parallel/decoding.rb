# frozen_string_literal: true

require_relative "../deserializing"
require_relative "../../errors"

module Pelton
  module Parallel
    # A topic's deserializer whose work is done ahead: it stands in its place, so `Message#payload` asks it. What an
    # engine made is kept by the messages; for all that it did not make (an error, a death, a cancel, no time) the
    # deserializer is asked where the payload is read, so values and errors are those of the inline way.
    class Decoding
      # What workers run. In a thread too, the payload that a deserializer itself asks for is what `decode` makes of it.
      class Job
        #: (^(Message) -> untyped) -> void
        def initialize(deserializer)
          @deserializer = deserializer
          freeze
        end

        #: (Message) -> untyped
        def call(message) = Deserializing.call(@deserializer, message)
      end

      # A deserializer whose payloads are frozen at the top: where Ractors may make them, which freeze them through and
      # through, code that changes one fails wherever it was made. More would cost more than Ractors save.
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
        # Guarded by @lock: {message => [future, index]} and {future => [topic, partition]} of what is not done.
        @pending = {}.compare_by_identity
        @futures = {}.compare_by_identity
        # Was it told that the deserializer is none for Ractors?
        @told = false
      end

      # The payload: what a worker made or makes of it; else here and now. Any thread.
      #: (Message) -> untyped
      def call(message)
        future, index = @lock.synchronize { @pending[message] } unless @pending.empty?
        value, error = future&.at(index)
        future && !error ? value : @deserializer.call(message)
      end

      # Before its jobs are queued, on the listener's thread; never waits.
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
        forget(future, messages) if future.done? # it was faster
      rescue StandardError => e # then payloads are made where they are read
        @bus.publish("error.occurred", error: e, source: "parallel", topic: @topic)
      end

      # Nothing more is done ahead for this partition.
      #: (String, Integer) -> void
      def cancel(topic, partition)
        ours = [topic, partition]
        futures = @lock.synchronize { @futures.filter_map { |future, place| future if place == ours } }
        futures.each(&:cancel)
      end

      def inspect = "#<#{self.class} of #{@topic}, #{@engine.inspect}>"

      private

      # On the thread that finished it.
      def done(future, messages)
        future.each_with_index { |(value, error), index| error ? failed(error) : keep(messages[index], value) }
      ensure
        forget(future, messages)
      end

      def keep(message, value)
        message.keep(value)
      rescue DecodeError
        nil # it has a payload already: the error that its deserializer returned, as whoever reads it again is told
      end

      def forget(future, messages)
        @lock.synchronize do
          @futures.delete(future)
          messages.each { |message| @pending.delete(message) }
        end
      end

      # An error of the deserializer's comes again where the payload is read. That it cannot work in a Ractor would go
      # unnoticed.
      def failed(error)
        return if @told || !error.is_a?(WorkError) || !error.error_class.start_with?("Ractor::")

        @told = true
        @bus.publish("error.occurred", error: error, source: "deserializer", topic: @topic)
      end
    end
  end
end
