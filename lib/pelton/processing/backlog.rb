# frozen_string_literal: true

module Pelton
  module Processing
    # What came of one partition and how far it is done: batches in order, the position in the first of them, and how
    # often the message there was tried. Pure bookkeeping: not thread-safe, its coordinator's lock guards it.
    class Backlog
      # A batch and what the flow admitted of it.
      Work = Struct.new(:batch, :messages)
      private_constant :Work

      # How often the message at the position was tried, with the try that runs. 0: not yet.
      attr_reader :attempt

      # limit: messages that a job gets at most.
      #: (Integer) -> void
      def initialize(limit)
        @limit = limit
        # The first is the current one and stays here, in native memory, until all of it is done.
        @pending = []
        # Offset of the first message of the current work that is not finished; nil: not begun.
        @position = nil
        @attempt = 0
        # Up to this offset messages run one by one.
        @alone_until = nil
      end

      #: (Batch, Messages) -> void
      def add(batch, messages) = @pending << Work.new(batch, messages)

      # What a job gets next, or nil. What is finished is let go; a batch of which the flow admitted nothing is yielded
      # before, to be marked.
      #: () { (Batch) -> void } -> Messages?
      def next
        while (work = @pending.first)
          messages = work.messages
          @position ||= messages.first_offset
          if messages.empty?
            yield work.batch
          elsif @position <= messages.last_offset
            @attempt += 1
            return messages.from(@position, limit)
          end
          drop
        end
      end

      # The job that `next` gave was not begun: it was no attempt.
      #: () -> void
      def unbegun
        @attempt -= 1
      end

      # The message before this offset was marked, while its job runs or while a retry waits: the count begins anew for
      # the next message.
      #: (Integer, running: bool) -> void
      def advance(offset, running:)
        return unless @position && offset > @position

        @position = offset
        @attempt = running ? 1 : 0
      end

      # Everything up to this offset is done. Returns the offset up to which it may be marked: what the flow did not
      # admit behind it is done too.
      #: (Integer) -> Integer
      def pass(offset)
        work = @pending.first
        offset = work.batch.last_offset if work && offset == work.messages.last_offset
        @position = [@position || 0, offset + 1].max
        @attempt = 0
        offset
      end

      # From here to this offset one message at a time.
      #: (Integer) -> void
      def alone_until(offset)
        @alone_until = offset
      end

      # What is left of a job's messages.
      #: (Messages) -> Messages
      def unfinished(messages) = @position ? messages.from(@position, messages.size) : messages

      # Gives batches back, but the first `keep` (a job reads them).
      #: (?keep: Integer) -> void
      def release(keep: 0)
        @pending.slice!(keep..)&.each { |work| work.batch.release }
      end

      private

      def limit = @alone_until && @position <= @alone_until ? 1 : @limit

      def drop
        @pending.shift.batch.release
        @position = @alone_until = nil
        @attempt = 0
      end
    end
  end
end
