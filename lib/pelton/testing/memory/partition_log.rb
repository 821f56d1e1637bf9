# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Testing
    module Memory
      # A message in a partition.
      #   headers  [["name", "value"], …]
      #   state    :committed, :aborted, or :open (of a transaction that is open)
      #   helper   did the test itself produce it?
      #   number   of the partition
      #   position counts all messages of the process, in the order in which they were produced
      Entry = Struct.new(:topic, :number, :offset, :timestamp_ms, :key, :payload, :headers, :state, :helper,
                         :position) do
        alias_method :partition, :number
        def produced? = state == :committed
        def row = [offset, timestamp_ms, key, payload, headers]
        def bytes = key.to_s.bytesize + payload.to_s.bytesize + headers.flatten.sum { |text| text.to_s.bytesize }
      end

      # The messages of one partition, by offset. The broker's lock guards changes.
      class PartitionLog
        @positions = 0
        LOCK = Mutex.new
        private_constant :LOCK

        #: () -> Integer
        def self.next_position = LOCK.synchronize { @positions += 1 }

        # The topic, and the number of the partition.
        #: () -> untyped
        attr_reader :topic, :number
        # [Entry, …]; ends of transactions are not among them.
        #: () -> Array[Entry]
        attr_reader :entries
        # The offset that the next message gets.
        #: () -> Integer
        attr_reader :end_offset

        def initialize(topic, number)
          @topic = topic.dup.freeze
          @number = number
          @entries = []
          # Those of open transactions.
          @open = []
          @end_offset = 0
        end

        #: (Hash[Symbol, untyped], open: bool, helper: bool) -> Entry
        def append(message, open:, helper:)
          offset = message[:offset] || @end_offset
          entry = Entry.new(@topic, @number, offset, milliseconds(message[:timestamp]), copy(message[:key]),
                            copy(message[:payload]), rows(message[:headers]), open ? :open : :committed, helper,
                            self.class.next_position)
          @end_offset = offset + 1
          @entries << entry
          @open << entry if open
          entry
        end

        # A transaction has ended: its messages are :committed or :aborted now. Its end takes an offset.
        def mark_end
          @open.select! { |entry| entry.state == :open }
          @end_offset += 1
        end

        # The offset up to which a reader may read: not into an open transaction, unless it reads uncommitted messages.
        #: (committed: bool) -> Integer
        def readable_end(committed:)
          committed && @open.any? ? @open.first.offset : @end_offset
        end

        # The entries from this offset on that a reader gets, at most `limit`.
        #: (Integer, committed: bool, ?limit: Integer) -> Array[Entry]
        def from(offset, committed:, limit: @entries.size)
          finish = readable_end(committed: committed)
          first = @entries.bsearch_index { |entry| entry.offset >= offset } or return []
          found = []
          (first...@entries.size).each do |index|
            entry = @entries[index]
            break if entry.offset >= finish || found.size == limit

            found << entry if !committed || entry.produced?
          end
          found
        end

        private

        def copy(text) = text&.dup&.freeze

        # A repeated header has an Array of values.
        def rows(headers)
          (headers || {}).flat_map do |name, given|
            (given.is_a?(Array) ? given : [given]).map { |value| [copy(name), copy(value)] }
          end
        end

        def milliseconds(timestamp)
          return timestamp if timestamp.is_a?(Integer)

          ((timestamp ? timestamp.to_r : Clock.wall) * 1000).floor
        end
      end
    end
  end
end
