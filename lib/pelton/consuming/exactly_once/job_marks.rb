# frozen_string_literal: true

module Pelton
  module Consuming
    class ExactlyOnce
      # What the transactions of one job marked and left undone. Each job has its own object. So a transaction of
      # another thread, or one that ends late, cannot change a job that it does not belong to.
      class JobMarks
        # Did a transaction of the job mark a message?
        attr_accessor :used
        # Did a transaction of the job meet an earlier one whose outcome it could not get, or that was committed after
        # all?
        #: () -> bool
        attr_accessor :met_unresolved
        # Was a transaction of the job aborted because Kafka did not answer one of its requests in time?
        #: () -> bool
        attr_accessor :unanswered
        # The exception that aborted the last aborted transaction; nil: none was aborted with an error.
        #: () -> Exception?
        attr_reader :reason

        # The block returns the offset of the running job's first message that is not done, or nil.
        #: () { () -> Integer? } -> void
        def initialize(&first)
          @first = first
          # The thread that runs the job; nil: the job is over.
          @thread = nil
          # Threads of the consumer that ran before the job began (see Background::Scope).
          @others = []
          @used = @met_unresolved = @unanswered = false
          # The largest offset that an aborted transaction marked. For one that was aborted before it marked, @silent is
          # the job's first message that was not done at that time.
          @aborted = @silent = @reason = nil
          # Does a transaction refer to this object?
          @known = false
        end

        # A job begins on this thread. others: the consumer's threads that ran before. Returns the job's object: a new
        # one only if a transaction refers to this one.
        #: (Thread, Array[Thread]) -> JobMarks
        def next(thread, others)
          return JobMarks.new(&@first).next(thread, others) if @known

          @thread = thread
          @others = others
          @met_unresolved = @unanswered = false
          self
        end

        # The job is over: its messages that are not done will be consumed again.
        #: () -> void
        def over = @thread = nil

        #: () -> bool
        def over? = @thread.nil?

        # Does a transaction of this thread belong to the job? The job's threads are its own one and those that it
        # started.
        #: (Thread) -> bool
        def of?(thread)
          owner = @thread or return false
          ours = thread.equal?(owner) || (thread.group.equal?(owner.group) && !@others.include?(thread))
          @known ||= ours
          ours
        end

        # Is this message one that the job has not finished?
        #: (Message) -> bool
        def waits_for?(message)
          first = @first&.call
          !first.nil? && message.offset >= first
        end

        # A transaction that marked up to this offset was aborted.
        #: (Integer, Exception?) -> void
        def aborted(offset, reason)
          @known = true
          @reason = reason || @reason
          @aborted = [@aborted, offset].compact.max
        end

        # A transaction was aborted without an error before it marked, so its messages are unknown.
        #: (Exception?) -> void
        def aborted_unmarked(reason)
          @reason = reason || @reason
          @silent ||= @first&.call # rubocop:disable Naming/MemoizedInstanceVariableName
        end

        # A transaction that marked up to this offset was committed.
        #: (Integer) -> void
        def committed(offset)
          @aborted = nil if @aborted && @aborted <= offset
          @silent = nil if @silent && @silent <= offset
        end

        # A transaction was committed, so Kafka answers. What an earlier one left undone stays its failure.
        #: () -> void
        def answered = @unanswered &&= undone?

        # Offsets that no mark may pass unless the same transaction marks them, too; nil: there are none.
        #: () -> Array[Integer]?
        def undone = ([@aborted, @silent].compact if undone?)

        #: () -> bool
        def undone? = !(@aborted || @silent).nil?
      end
    end
  end
end
