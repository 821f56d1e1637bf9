# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "dispatcher"
require_relative "future"

module Pelton
  module Parallel
    # An engine with workers: threads or Ractors that live as long as the pool. They start with the first dispatch (or
    # `start`), and again in a forked child. All methods are callable from every thread.
    class Pool
      # The largest number of tasks per worker that a dispatch is split into.
      TASKS = 4

      # kind: ThreadWorker or RactorWorker. min: fewer inputs than this are not dispatched; the reading thread does the
      # work. task_size: the smallest number of inputs that a worker gets at once. bus: gets worker.replaced events.
      #: (Class, size: Integer, ?min: Integer, ?task_size: Integer, ?name: String, ?bus: Notifications?) -> void
      def initialize(kind, size:, min: 50, task_size: 100, name: "pelton.parallel", bus: nil)
        @kind = kind
        @size = size
        @min = min
        @task_size = task_size
        @name = name
        @bus = bus
        @lock = Mutex.new
        # Guarded by @lock: the dispatcher; earlier ones that may not have ended; number of users (see `retain`).
        @dispatcher = nil
        @retired = []
        @users = 0
        @closed = false
      end

      # Is this many inputs worth a dispatch?
      #: (Integer) -> bool
      def worth?(count) = count >= @min && count.positive?

      # Gives the work to the workers. Never waits. Ractors need shareable inputs and a shareable job. A worker that
      # dies is replaced, and each input that it had is tried once more, alone. on_done: called on any thread when the
      # future is complete; it must not wait.
      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future
      def dispatch(inputs, job, timeout: nil, &on_done)
        return Lazy.new(inputs, job, timeout: timeout) unless worth?(inputs.size)

        dispatcher = running
        future = Pending.new(inputs.size, timeout: timeout, on_late: dispatcher.method(:late), on_done: on_done)
        future.give_up(closed) unless dispatcher.push(tasks(future, inputs, job))
        future
      end

      # Starts the workers.
      #: () -> self
      def start = tap { running }

      # For code with several pools that may not need this one: the workers end once each `retain` had its `release`.
      #: () -> self
      def retain = tap { @lock.synchronize { @users += 1 } }

      # Never waits. Running work is finished, as with `close`. A later dispatch starts new workers.
      #: () -> void
      def release
        retired = @lock.synchronize do
          next unless (@users -= 1).zero? && @dispatcher

          @retired = [*@retired.select(&:alive?), @dispatcher]
          @dispatcher.tap { @dispatcher = nil }
        end
        retired&.retire
      end

      # Workers finish the tasks that they have; other tasks are not started. After `timeout` seconds workers are
      # killed, and this returns false.
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        deadline = Clock.deadline(timeout)
        dispatchers = @lock.synchronize do
          @closed = true
          [*@retired, *@dispatcher]
        end
        dispatchers.select(&:alive?).map { |dispatcher| dispatcher.close(Clock.left(deadline)) }.all?
      end

      def inspect = "#<#{self.class} #{@name} of #{@size} #{@kind.name[/\w+\z/]}s>"

      private

      def running
        current = @dispatcher
        return current if current&.alive? && !@closed

        @lock.synchronize do
          raise closed if @closed

          # In a forked child, the parent's thread is not alive.
          next @dispatcher if @dispatcher&.alive?

          @dispatcher = Dispatcher.new(@kind, size: @size, name: @name, bus: @bus)
        end
      end

      def tasks(future, inputs, job)
        count = (inputs.size / @task_size).clamp(1, TASKS * @size)
        size = (inputs.size / count.to_f).ceil
        inputs.each_slice(size).with_index.map { |slice, index| Task.new(future, index * size, slice.freeze, job) }
      end

      def closed = ClosedError.new("pool #{@name}")
    end
  end
end
