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
      #   finished  did its block reach its end? Then `value` is what it returned; otherwise `reason` is what ended it
      #   silent    it was aborted without an error
      #   over      it is not in progress any more
      OpenTransaction = Struct.new(:thread, :fiber, :job_marks, :producer, :tx, :message, :offsets, :finished, :value,
                                   :reason, :silent, :over) do
        # true: no running code waits for its outcome.
        def left? = over || !thread.alive? || fiber.equal?(Fiber.current)
      end
    end
  end
end
