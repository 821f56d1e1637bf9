# frozen_string_literal: true

module Pelton
  module Consuming
    class ExactlyOnce
      # A transaction from its begin until its outcome is known.
      #   thread, fiber  that run its block
      #   job_marks  of the job that it belongs to (see JobMarks#of?); nil: it belongs to none, for example if a
      #     background thread began it
      #   producer, tx
      #   message   the marked message with the largest offset
      #   offsets   {["orders", 0] => 43}, of all marked messages
      #   after_commit  [Proc, …] that run when it is known to be committed
      #   finished  did its block reach its end? Then `value` is what it returned; otherwise `reason` is what ended it
      #   silent    it was aborted without an error
      #   over      it is not in progress any more
      OpenTransaction = Struct.new(:thread, :fiber, :job_marks, :producer, :tx, :message, :offsets, :after_commit,
                                   :finished, :value, :reason, :silent, :over) do
        # true: no running code waits for its outcome.
        def left? = over || !thread.alive? || fiber.equal?(Fiber.current)

        # Last of all, because it runs code of subscribers.
        #: () -> void
        def run_after_commit = after_commit.each(&:call)
      end
    end
  end
end
