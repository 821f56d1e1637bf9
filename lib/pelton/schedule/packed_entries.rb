# frozen_string_literal: true

require_relative "heap"
require_relative "pages"
require_relative "scheduled_message"

module Pelton
  class Schedule
    # Entries by their ids and in the order of their times, in little memory: an entry costs no object, but its bytes in
    # Pages and two Integers. One thread uses it.
    class PackedEntries
      # An entry's bytes: its time and its offset, by which Strings sort, the sizes of its id and its payload (-1: nil),
      # these two, and the rest.
      FORMAT = "Q>Q>Nl>a*a*a*"
      ID_SIZE_AT = 16
      ID_AT = 24
      ORDER = "a16"
      TIME = "Q>"
      # Those that are mostly nil are last, because they are left away then.
      REST = %i[topic schedule_partition headers key partition partition_key moved recurring last at_ms].freeze
      private_constant :FORMAT, :ID_SIZE_AT, :ID_AT, :ORDER, :TIME, :REST

      def initialize
        @pages = Pages.new
        # {hash of an id => position of its entry}; an Array of positions if the hash is that of more ids.
        @positions = {}
        # Positions in the order of times, also of entries that were removed since.
        @heap = heap([])
      end

      #: () -> Integer
      def size = @pages.count

      # The entry with this id.
      #: (String) -> ScheduledMessage?
      def [](id) = find(id.b)&.then { |position| unpack(@pages[position]) }

      #: (String) -> bool
      def id?(id) = !find(id.b).nil?

      #: () { (ScheduledMessage) -> void } -> void
      def each = positions { |position| yield unpack(@pages[position]) }

      # Yields the id of each entry.
      #: () { (String) -> void } -> void
      def each_id = positions { |position| yield text(id(position)) }

      # Adds an entry, which is due at `at_ms`. It replaces the one with its id.
      #: (ScheduledMessage, ?Integer) -> void
      def add(entry, at_ms = entry.at_ms)
        delete(entry.id)
        position = @pages.add(pack(entry, at_ms))
        store(position)
        @heap << position
      end

      #: (String) -> void
      def delete(id)
        bytes = id.b
        position = find(bytes) or return
        others = same_hash(bytes) - [position]
        others.empty? ? @positions.delete(hash_of(bytes)) : @positions[hash_of(bytes)] = others
        @pages.remove(position)
      end

      # When the first entry is due, in milliseconds since 1970; nil: there is none.
      #: () -> Integer?
      def next_at
        @heap.shift until @heap.first.nil? || @pages.kept?(@heap.first)
        @heap.first&.then { |position| @pages.unpack1(position, TIME) }
      end

      # Takes the next entry that is due at this time out of the order; nil: there is none.
      #: (Integer) -> ScheduledMessage?
      def take(now)
        at = next_at
        unpack(@pages[@heap.shift]) if at && at <= now
      end

      # Frees the memory of deleted entries, if it is much. Those that were taken are in the order again.
      #: () -> void
      def compact
        return unless @pages.wasteful?

        @positions = {}
        @pages.compact { |position| store(position) }
        @heap = heap(positions.to_a)
      end

      private

      def pack(entry, at_ms)
        rest = entry.to_h.values_at(*REST)
        rest.pop if at_ms == entry.at_ms
        rest.pop while rest.last.nil?
        [at_ms, entry.offset, entry.id.bytesize, entry.payload&.bytesize || -1, entry.id, entry.payload.to_s,
         Marshal.dump(rest)].pack(FORMAT)
      end

      def unpack(packed)
        at_ms, offset, id_size, size = packed.unpack(FORMAT)
        id, payload, rest = packed.unpack("a#{id_size}a#{[size, 0].max}a*", offset: ID_AT)
        # Only what `pack` dumped.
        rest = REST.zip(Marshal.load(rest)).to_h # rubocop:disable Security/MarshalLoad
        ScheduledMessage.new(**rest, id: text(id), at_ms: rest[:at_ms] || at_ms, offset: offset,
                                     payload: size.negative? ? nil : payload)
      end

      def text(id) = id.force_encoding(Encoding::UTF_8)

      # The id of the entry at this position, in bytes.
      def id(position) = @pages.unpack1(position, "a#{@pages.unpack1(position, "N", ID_SIZE_AT)}", ID_AT)

      def positions(&block)
        return enum_for(:positions) unless block

        @positions.each_value { |found| [*found].each(&block) }
      end

      def find(bytes) = same_hash(bytes).find { |position| id(position) == bytes }

      def store(position)
        bytes = id(position)
        others = @positions[hash_of(bytes)]
        @positions[hash_of(bytes)] = others ? [*others, position] : position
      end

      def same_hash(bytes) = [*@positions[hash_of(bytes)]]

      def hash_of(bytes) = bytes.hash

      def heap(positions) = Heap.new(positions) { |position| @pages.unpack1(position, ORDER) }
    end
  end
end
