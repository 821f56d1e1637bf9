# frozen_string_literal: true

require_relative "scheduled_message"
require_relative "heap"

module Pelton
  class Schedule
    # The entries of one partition of the schedule topic, as its records say, in the order of their times. It keeps each
    # entry as one String, because that takes a third of the memory of an object. One thread uses it.
    class Index
      include Enumerable

      # What is in front of a packed entry: its time and its offset, by which Strings sort, and its id.
      PREFIX = "Q>Q>na*"
      ID_AT = 18
      FIELDS = %i[at_ms topic payload key headers partition partition_key offset place moved recurring
                  last].freeze
      # Removed entries stay in the heap until their time. If they are more than this and more than the others, the
      # heap is made again.
      SPARE = 1_000
      private_constant :PREFIX, :ID_AT, :FIELDS, :SPARE

      def initialize
        # {"@2.h3Vw0" => packed entry}
        @table = {}
        # Packed entries; those that are not in the table are gone.
        @heap = Heap.new
        # Hashes of the ids that ended while the log is read for the first time; nil after that.
        @ended = {}
        # {"reminder-7" => 4711}: offsets of the entries that must be written again, until they are read back.
        @again = {}
      end

      # The log has been read to its end once.
      #: () -> void
      def loaded = @ended = nil

      #: () -> Integer
      def size = @table.size

      # Takes a record. Returns what its log needs, so that each message is sent once:
      #   nil         nothing
      #   :foreign    it is no entry
      #   [:again, entry]  the entry must be written again, because a tombstone that is older hides it
      #   [:end, entry]    the entry must get a tombstone, because it came too late
      #: (Message) -> (Symbol | [Symbol, ScheduledMessage])?
      def read(message)
        id = message.raw_key
        return :foreign unless id
        return ended(id, message) if message.tombstone?

        entry = ScheduledMessage.read(message) or return :foreign
        return [:end, entry] if entry.moved && late?(entry)

        put(entry)
        nil
      end

      # The entry with this id.
      #: (String) -> ScheduledMessage?
      def [](id) = @table[id]&.then { |packed| unpack(packed) }

      #: () { (ScheduledMessage) -> void } -> void
      def each = @table.each_value { |packed| yield unpack(packed) }

      # When the first entry is due, in milliseconds since 1970; nil: there is none.
      #: () -> Integer?
      def next_at
        drop_gone
        @heap.first&.unpack1("Q>")
      end

      # Takes the next entry that is due at this time out of the order; nil: there is none. `delete` or `defer` it.
      #: (Integer) -> ScheduledMessage?
      def take(now)
        at = next_at
        unpack(@heap.shift) if at && at <= now
      end

      # The entry waits until this time.
      #: (ScheduledMessage, Integer) -> void
      def defer(entry, until_ms) = put(entry, until_ms)

      #: (String) -> void
      def delete(id)
        @table.delete(id)
        compact
      end

      private

      def put(entry, at_ms = entry.at_ms)
        # `<<` would leave room for more.
        packed = [at_ms, entry.offset, entry.id.bytesize, entry.id].pack(PREFIX)
        packed = (packed + Marshal.dump(entry.to_h.values_at(*FIELDS))).freeze
        @table[entry.id.dup.freeze] = packed
        @again.delete(entry.id)
        @heap << packed
        compact
      end

      def unpack(packed)
        id = id(packed)
        # Only what `put` dumped.
        values = Marshal.load(packed.byteslice((ID_AT + id.bytesize)..)) # rubocop:disable Security/MarshalLoad
        ScheduledMessage.new(id: id, **FIELDS.zip(values).to_h)
      end

      def id(packed) = packed.byteslice(ID_AT, packed.unpack1("x16n")).force_encoding(Encoding::UTF_8)

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
        return false if @table.key?(entry.id) || @again[entry.id] == entry.moved

        @ended.nil? || @ended.key?(entry.id.hash)
      end

      def drop_gone
        @heap.shift until @heap.first.nil? || @table[id(@heap.first)].equal?(@heap.first)
      end

      def compact
        @heap = Heap.new(@table.values) if @heap.size > (2 * @table.size) + SPARE
      end
    end
  end
end
