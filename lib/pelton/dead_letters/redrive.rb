# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class DeadLetters
    # What a redrive makes of a letter: the message as it was before it failed, and where it goes. Has no state of a
    # run, so a dry run uses it, too.
    class Redrive
      CALLABLE = "expected an object with call, which gets each letter and returns a String, or nil for a tombstone"
      private_constant :CALLABLE

      #: () -> Symbol
      def status = :redriven

      # to: a topic; nil: the first topic of each letter. retry_topic: delay in seconds of the retry topic, instead.
      # payload: gets each letter and returns the payload to send; nil: its own. The block returns the number of a
      # topic's partitions, nil if it does not exist.
      #: (?to: String?, ?retry_topic: Numeric?, ?payload: (^(Letter) -> String?)?) { (String) -> Integer? } -> void
      def initialize(to: nil, retry_topic: nil, payload: nil, &partitions)
        raise ConfigError.new(:to, to, "excludes retry_topic: name one of them") if to && retry_topic
        raise ConfigError.new(:payload, payload, CALLABLE) unless payload.nil? || payload.respond_to?(:call)

        @payload = payload
        @to = to && Settings::Setting.new(:to, :name, nil, "").check(to)
        @delay = Settings::Setting.new(:retry_topic, :positive_seconds, nil, "").check(retry_topic)
        @partitions = partitions
      end

      # Why this letter cannot be sent; nil: it can.
      #: (Letter) -> String?
      def problem(letter)
        origin = letter.origin
        return "it has no origin: name the topic with `to`" unless origin || @to
        return "its payload was left out: #{origin.payload_omitted}" if origin&.payload_omitted && !@payload
        return "its group is unknown: a retry topic needs one" if @delay && origin.group.nil?

        topic = target(letter)
        return "it would come back to the dead letters" if topic == letter.topic

        "the topic #{topic} does not exist" unless @partitions.call(topic)
      end

      # The topic to which it goes.
      #: (Letter) -> String
      def target(letter)
        @to || (@delay ? "#{letter.origin.topic}.retry.#{number(@delay)}" : letter.origin.topic)
      end

      # The message to send. It has the present time, because Kafka deletes messages by their age.
      #: (Letter) -> Hash[Symbol, untyped]
      def message(letter)
        message = letter.message
        topic = target(letter)
        headers = message.raw_headers
        headers = letter.origin.redriven(group: (letter.group if @delay)).headers(letter.headers) if letter.origin
        { topic: topic, partition: partition(letter, topic), key: message.raw_key, payload: payload(letter),
          headers: headers }
      end

      private

      def payload(letter)
        return letter.raw_payload unless @payload

        found = @payload.call(letter)
        return found if found.nil? || found.is_a?(String)

        raise ConfigError.new(:payload, found, "expected a String or nil from the call for the letter #{letter.place}")
      end

      # The partition that it had, so that the order per key stays. If it does not exist there, the key decides, or
      # without a key the order of the letters.
      def partition(letter, topic)
        count = @partitions.call(topic)
        number = letter.origin&.partition || letter.partition
        same = letter.origin && !@to
        return number % count if @delay || letter.message.raw_key.nil?

        number if (same || topic == letter.origin&.topic) && number.between?(0, count - 1)
      end

      # 10, 0.5: as in the names of retry topics.
      def number(seconds) = (seconds % 1).zero? ? seconds.to_i : seconds.to_f
    end

    # The same for letters that are deleted: nothing is sent.
    class Deletion
      #: () -> Symbol
      def status = :deleted
      #: (Letter) -> nil
      def problem(_letter) = nil
      #: (Letter) -> nil
      def target(_letter) = nil
      #: (Letter) -> nil
      def message(_letter) = nil
    end
  end
end
