# frozen_string_literal: true

require_relative "../../runtime/native"

module Pelton
  module Testing
    module Memory
      # A partition that a subscription reads: its position in the log, and what is marked. Not thread-safe.
      class AssignedPartition
        # The next offset that is read.
        #: () -> Integer
        attr_accessor :position
        # :reading, :paused, or :revoked (its revocation was reported and not answered)
        #: () -> Symbol
        attr_accessor :state
        # [offset, metadata] that is marked and not committed; nil: none. It may be before the committed offset, after a
        # seek back. It is committed all the same, as by the native code.
        #: () -> [Integer, String?]?
        attr_accessor :mark

        # format, condition: as for Native::Subscription. all: also messages of open and aborted transactions.
        #: (PartitionLog, Integer, untyped, untyped, all: bool) -> void
        def initialize(log, position, format, condition, all:)
          @log = log
          @position = position
          @committed_only = !all
          @batches = Native::GivenPartition.new(log.topic, log.number, format, condition)
          @state = :reading
          @mark = nil
          # Was the end of the log reported since the last message?
          @end_reported = false
        end

        #: () -> bool
        def reading? = @state == :reading

        # The offset up to which it may read.
        #: () -> Integer
        def end_offset = @log.readable_end(committed: @committed_only)

        # The next batch, of so many messages and bytes at most; nil: none.
        #: (Integer, Integer) -> Batch?
        def batch(messages, bytes)
          entries = @log.from(@position, committed: @committed_only, limit: messages)
          if entries.empty?
            @position = [@position, end_offset].max
            return
          end

          entries = within(entries, bytes)
          @position = entries.last.offset + 1
          @end_reported = false
          # The test may look at the messages after the batch was released.
          @batches.batch(entries.map(&:row), (Clock.wall * 1000).floor).tap(&:messages)
        end

        # Was the end reached, and not reported? From now on it is.
        #: () -> bool
        def report_end?
          return false if @end_reported || @position < end_offset

          @end_reported = true
        end

        # Continues at this offset. Earlier batches are stale.
        #: (Integer) -> void
        def seek(offset)
          @position = offset
          @end_reported = false
          @batches.begin
        end

        # It is not read any more.
        #: () -> void
        def end_reading = @batches.begin

        private

        # At least one message.
        def within(entries, bytes)
          sum = 0
          entries.take_while.with_index { |entry, index| (sum += entry.bytes) <= bytes || index.zero? }
        end
      end
    end
  end
end
