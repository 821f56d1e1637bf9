# frozen_string_literal: true

require "json"

module Pelton
  class DeadLetters
    # Which letters were redriven or deleted: one record per letter in a compacted topic beside the dead letters, with
    # the letter's place as key. A record counts only for the letter for which it was written.
    #   "0/42" => {"letter":"9f86d081884c7d65","status":"redriven","at":1763850000000,"to":"orders"}
    class StatusLog
      # at: a Time; to: a topic, or nil.
      Record = Struct.new(:status, :at, :to)

      # The name of the topic with the records.
      #: (String) -> String
      def self.topic(dead_letters) = "#{dead_letters}.status"

      # The message that records what became of a letter.
      #: (Letter, Symbol, ?to: String?) -> Hash[Symbol, untyped]
      def self.message(letter, status, to: nil)
        at = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
        record = { letter: letter.identity, status: status, at: at, to: to }.compact
        { topic: topic(letter.topic), key: letter.place, payload: JSON.generate(record) }
      end

      # records: messages of the topic, in order.
      #: (Enumerable[Message]) -> void
      def initialize(records)
        # {"0/42" => JSON}
        @records = {}
        records.each do |record|
          record.tombstone? ? @records.delete(record.raw_key) : @records[record.raw_key] = record.raw_payload
        end
      end

      # nil: the letter is open.
      #: (Letter) -> Record?
      def of(letter)
        found = parse(@records[letter.place])
        return unless found && found["letter"] == letter.identity

        Record.new(found["status"].to_sym, Time.at(found["at"] / 1000, found["at"] % 1000, :millisecond), found["to"])
      end

      # Places before these offsets, {partition => offset}: Kafka has deleted those letters.
      #: (Hash[Integer, Integer]) -> Array[String]
      def expired(oldest)
        @records.keys.select do |place|
          partition, offset = place.to_s.split("/").map(&:to_i)
          oldest.key?(partition) && offset && offset < oldest[partition]
        end
      end

      private

      # nil: this is no record of ours.
      def parse(json)
        found = JSON.parse(json) if json
        found if found.is_a?(Hash) && found.values_at("letter", "status").all?(String) && found["at"].is_a?(Integer)
      rescue JSON::ParserError
        nil
      end
    end
  end
end
