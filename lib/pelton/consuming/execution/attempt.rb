# frozen_string_literal: true

module Pelton
  module Consuming
    # What the transactions of one job marked and left undone, while the job runs. A job has its own, so a transaction
    # of another thread, or one that ends late, changes nothing of a job that it does not belong to.
    class Attempt
      # Did one of them mark?
      attr_accessor :used
      # What aborted the last of them.
      #: () -> Exception?
      attr_reader :reason

      # The block tells the offset of the running job's first message that is not done; nil: there is none.
      #: () { () -> Integer? } -> void
      def initialize(&first)
        @first = first
        # The thread that runs the job; nil: it is over.
        @thread = nil
        # Threads that the job did not start, of the consumer's that live (see Background::Scope).
        @others = []
        @used = false
        # The largest offset that an aborted one marked. Of one that was aborted before it marked: the job's first
        # message that was not done then.
        @aborted = @silent = @reason = nil
        # Does a transaction know of it?
        @known = false
      end

      # A job begins, on this thread. others: the consumer's threads that lived before. Returns the attempt of the job:
      # a new object only if a transaction knows this one.
      #: (Thread, Array[Thread]) -> Attempt
      def next(thread, others)
        return Attempt.new(&@first).next(thread, others) if @known

        @thread = thread
        @others = others
        self
      end

      # The job is over: what it left undone comes again.
      #: () -> void
      def over = @thread = nil

      #: () -> bool
      def over? = @thread.nil?

      # Does a transaction of this thread belong to the job? So do those of threads that the job started.
      #: (Thread) -> bool
      def of?(thread)
        owner = @thread or return false
        ours = thread.equal?(owner) || (thread.group.equal?(owner.group) && !@others.include?(thread))
        @known ||= ours
        ours
      end

      # Is this message one that the job has still to finish?
      #: (Message) -> bool
      def waits_for?(message)
        first = @first&.call
        !first.nil? && message.offset >= first
      end

      # A transaction with this mark was aborted.
      #: (Integer, Exception?) -> void
      def aborted(offset, reason)
        @known = true
        @reason = reason || @reason
        @aborted = [@aborted, offset].compact.max
      end

      # One was aborted, without an error, before it marked: nobody knows of which messages it was.
      #: (Exception?) -> void
      def silent(reason)
        @reason = reason || @reason
        @silent ||= @first&.call
      end

      # One with this mark was committed.
      #: (Integer) -> void
      def passed(offset)
        @aborted = nil if @aborted && @aborted <= offset
        @silent = nil if @silent && @silent <= offset
      end

      # Offsets that no mark may pass, unless its transaction marks them, too; nil: there is none.
      #: () -> Array[Integer]?
      def undone = ([@aborted, @silent].compact if undone?)

      #: () -> bool
      def undone? = !(@aborted || @silent).nil?
    end
  end
end
