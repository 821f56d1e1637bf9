# frozen_string_literal: true

require_relative "packed_entries"
require_relative "scheduled_message"

module Pelton
  class Schedule
    # The entries of one partition of the schedule topic, as its records say. One thread uses it.
    class Index
      include Enumerable

      def initialize
        @entries = PackedEntries.new
        # Hashes of the ids that ended while the log is read for the first time; nil after that.
        @ended = {}
        # {"reminder-7" => 4711}: offsets of the entries that must be written again, until they are read back.
        @again = {}
      end

      # The log has been read to its end once.
      #: () -> void
      def loaded = @ended = nil

      #: () -> Integer
      def size = @entries.size

      # Takes a record. Returns what its log needs, so that each message is sent once:
      #   nil         nothing
      #   :foreign    it is no entry
      #   [:again, entry]  the entry must be written again, because a tombstone that is older hides it
      #   [:end, entry]    the entry must get a tombstone, because it came too late
      #: (Message) -> (Symbol | [Symbol, ScheduledMessage])?
      def read(message)
        # Not in `delete`: an entry that was taken to be sent would be taken once more.
        @entries.compact
        id = message.raw_key
        return :foreign unless id
        return ended(id, message) if message.tombstone?

        entry = ScheduledMessage.read(message) or return :foreign
        return [:end, entry] if entry.moved && late?(entry)

        @entries.add(entry)
        @again.delete(entry.id)
        nil
      end

      # The entry with this id.
      #: (String) -> ScheduledMessage?
      def [](id) = @entries[id]

      #: () { (ScheduledMessage) -> void } -> void
      def each(&block) = @entries.each(&block)

      # The ids of all entries.
      #: () -> Enumerator[String, void]
      def ids = @entries.enum_for(:each_id)

      # When the first entry is due, in milliseconds since 1970; nil: there is none.
      #: () -> Integer?
      def next_at = @entries.next_at

      # Takes the next entry that is due at this time out of the order; nil: there is none. Before the next `read`, call
      # `delete` or `defer` with it.
      #: (Integer) -> ScheduledMessage?
      def take(now) = @entries.take(now)

      # The entry waits until this time.
      #: (ScheduledMessage, Integer) -> void
      def defer(entry, until_ms) = @entries.add(entry, until_ms)

      #: (String) -> void
      def delete(id) = @entries.delete(id)

      private

      # A tombstone that Pelton wrote names the record that was sent. The entry of a later record with the same id was
      # not sent, unless it only moves the one that was.
      def ended(id, message)
        sent = message.raw_headers["#{ScheduledMessage::PREFIX}sent"]&.to_i
        @ended[id.hash] = true if @ended
        entry = self[id]
        delete(id)
        @again.delete(id)
        return unless sent && entry && entry.offset > sent && entry.moved.nil?

        @again[id] = entry.offset
        [:again, entry]
      end

      # Has the record that it moves been sent, or cancelled? While the log is read for the first time, a record that is
      # missing may have been compacted away.
      def late?(entry)
        return false if @entries.id?(entry.id) || @again[entry.id] == entry.moved

        @ended.nil? || @ended.key?(entry.id.hash)
      end
    end
  end
end
