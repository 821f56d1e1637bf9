# frozen_string_literal: true

module Pelton
  class Producer
    # Counts of failed messages as Producer#failures returns them, {"orders" => {MSG_TIMED_OUT: 3}}, and which of them
    # are new since a producer's last flush.
    class FailureCounts
      # Adds a native client's counts to `all`, and returns it.
      #: (untyped, ?Hash[String, Hash[Symbol, Integer]]) -> Hash[String, Hash[Symbol, Integer]]
      def self.of(native, all = {})
        native.failures.each { |topic, _, name, count| (all[topic] ||= Hash.new(0))[name] += count }
        all
      end

      # The failures that are in `now` and were not in `before`.
      #: (Hash[String, Hash[Symbol, Integer]], Hash[String, Hash[Symbol, Integer]])
      #:   -> Hash[String, Hash[Symbol, Integer]]
      def self.newer(before, now)
        now.filter_map do |topic, counts|
          more = counts.filter_map do |name, count|
            count -= before.dig(topic, name).to_i
            [name, count] if count.positive?
          end
          [topic, more.to_h] unless more.empty?
        end.to_h
      end

      # The error of a message that failed between two calls of a native client's `failures`; nil: none did. A broker's
      # answer (code > 0) says more than librdkafka's. What an abort dropped (`purged?`) did not fail by itself.
      #: (Array[[String, Integer, Symbol, Integer]], Array[[String, Integer, Symbol, Integer]]) -> DeliveryError?
      def self.error(before, now)
        errors = (now - before).map do |topic, code, name|
          DeliveryError.new(code, name, Native.error(code).reason, false, false, topic)
        end
        errors.reject(&:purged?).max_by(&:code)
      end

      def initialize
        # [native client, its failures at the end of the last flush]
        @last_flush = nil
      end

      # Runs the block, which flushes this client, and returns the failures since the last flush that had ended before.
      # Takes no lock, so it works in a trap.
      #: (untyped) { () -> void } -> Hash[String, Hash[Symbol, Integer]]
      def since_last_flush(native)
        last = @last_flush
        yield
        failures = FailureCounts.of(native)
        @last_flush = [native, failures]
        FailureCounts.newer(last&.first.equal?(native) ? last.last : {}, failures)
      end
    end
  end
end
