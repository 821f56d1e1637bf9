# frozen_string_literal: true

module Pelton
  module Consuming
    # The batches of a keyed backlog whose messages are in key queues. If all of these keys wait or run, and the batches
    # take half of what the partition may have in memory, the oldest are released before they are finished: the
    # partition is read on, and keys that wait for a retry do not stop the others. The message objects stay valid. The
    # coordinator's lock guards it.
    class Stragglers
      # The most messages of batches that were released here, and their most bytes.
      MESSAGES = 10_000
      BYTES = 2 << 20
      private_constant :MESSAGES, :BYTES

      def initialize
        # {tracker => true}: not released, the oldest first.
        @held = {}.compare_by_identity
        # {tracker => [messages, bytes]}: released before they were finished, and what they had left then.
        @released = {}.compare_by_identity
        @messages = @bytes = 0
      end

      #: (BatchTracker) -> void
      def add(tracker) = @held[tracker] = true

      # All of the batch is finished.
      #: (BatchTracker) -> void
      def remove(tracker)
        @held.delete(tracker)
        messages, bytes = @released.delete(tracker)
        return unless messages

        @messages -= messages
        @bytes -= bytes
      end

      # Releases batches, as far as that is needed and allowed.
      #: () -> void
      def release
        while (tracker, = @held.first) && tracker.crowded?
          messages = @messages + tracker.left
          bytes = @bytes + tracker.left_bytes
          break if messages > MESSAGES || bytes > BYTES

          @held.delete(tracker)
          @released[tracker] = [messages - @messages, bytes - @bytes].freeze
          @messages = messages
          @bytes = bytes
          tracker.release
        end
      end
    end
  end
end
