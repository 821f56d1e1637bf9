# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../runtime/threads"

module Pelton
  module Parallel
    # Inputs of a dispatch that one worker gets in one send. from: the index of the first input. begun: when a worker
    # got them (monotonic seconds). again: true for the second try.
    Task = Struct.new(:future, :from, :inputs, :job, :begun, :again) do
      # Is its worker too slow? Yes if the future is late and the worker had at least half of the time. A task that had
      # to wait for a free worker says nothing about that worker. Cancelled tasks may be overdue, too.
      #: () -> bool
      def overdue? = future.late? && Clock.now - begun >= future.timeout / 2.0

      # One task for each input, for the second try.
      #: () -> Array[Task]
      def singly
        inputs.each_with_index.map { |input, index| Task.new(future, from + index, [input].freeze, job, nil, true) }
      end
    end

    # The thread of a pool that gives waiting tasks to free workers. It waits on one port for messages of callers and
    # workers, so these never wait for each other. It replaces workers that die or hang.
    class Dispatcher
      # Seconds that killed workers have to end.
      FORCE = 1.0

      #: (Class, size: Integer, name: String, ?bus: Notifications?) -> void
      def initialize(kind, size:, name:, bus: nil)
        @kind = kind
        @size = size
        @name = name
        @bus = bus
        @port = kind.mailbox
        @lock = Mutex.new
        # Guarded by @lock: tasks that no worker has, and whether new tasks are refused.
        @waiting = []
        @closed = false
        # Everything below is used by the dispatcher's thread only. {id => worker}: workers that get tasks.
        @workers = {}
        # Workers that hung and were killed, but have not ended yet.
        @lost = []
        # Number of workers to start as soon as that is possible.
        @missing = size
        @ids = 0
        # The thread inherits deferred interrupts, so `finish` also runs if it is killed before its first step.
        @thread = Thread.handle_interrupt(Object => :never) { Threads.start(name, report: method(:report)) { run } }
      end

      #: () -> bool
      def alive? = @thread.alive?

      # Adds tasks. Never waits. Returns false if the dispatcher is closed.
      #: (Array[Task]) -> bool
      def push(tasks)
        @lock.synchronize { !@closed && @waiting.concat(tasks) } || (return false)
        notify(:work)
      end

      # A future has timed out.
      #: () -> void
      def late = notify(:late)

      # Starts no more tasks. Workers finish the tasks that they have.
      #: () -> void
      def retire
        @lock.synchronize { @closed = true }
        notify(:stop)
      end

      # Like `retire`, and waits up to `timeout` seconds. Returns false if workers had to be killed.
      #: (Numeric?) -> bool
      def close(timeout)
        retire
        return true if @thread.join(*timeout)

        notify(:force)
        @thread.kill unless @thread.join(FORCE)
        @thread.join
        false
      end

      private

      # Sends to the thread. Returns false if it has ended and its port is closed.
      def notify(what)
        @port << what
        true
      rescue StandardError
        raise unless @port.closed?

        false
      end

      def run
        Thread.handle_interrupt(Object => :immediate) do
          spawn_workers
          until @closed && @workers.empty? && @lost.empty?
            receive(*@port.receive)
            hand_out
          end
        end
      ensure
        finish
      end

      def receive(kind, id = nil, *facts)
        case kind
        when :ready then @workers[id]&.ready(*facts)
        when :done then done(@workers[id], *facts)
        when :exited, :aborted then on_worker_exit
        when :dead then replace_dead(@workers[id])
        when :work, :late then replace_lost
        when :stop then @workers.each_value(&:stop)
        when :force then [*@workers.values, *@lost].each(&:kill)
        end
      end

      # Starts the missing workers, unless too many killed ones have not ended yet.
      def spawn_workers
        while @missing.positive? && @lost.size <= @size
          @missing -= 1
          @ids += 1
          @workers[@ids] = @kind.new("#{@name}##{@ids}", @ids, @port)
        end
      end

      def hand_out
        return give_up(@lock.synchronize { @waiting.slice!(0..) }) if @workers.empty?

        @workers.each_value.select(&:free?).each do |worker|
          task = take or break
          task.begun = Clock.now
          put_back([task]) unless worker.give(task) # it has just died, and its message follows
        end
      end

      def take
        @lock.synchronize do
          return give_up(@waiting) if @closed

          task = @waiting.shift
          task = @waiting.shift while task&.future&.done? # cancelled or timed out
          task
        end
      end

      # worker: nil if it was already replaced.
      def done(worker, values, failures)
        return unless worker

        errors = worker.errors(failures)
        task = worker.take_back
        task.future.fulfil(task.from, values, errors)
      end

      # A worker has ended, but the message does not say which one. Its earlier messages are still in the port, so they
      # are handled before :dead.
      def on_worker_exit
        @lost.select!(&:alive?)
        @workers.each_value.reject(&:alive?).each { |worker| @port << [:dead, worker.id].freeze }
        spawn_workers unless @closed
      end

      # worker: nil if it was already replaced.
      def replace_dead(worker) = worker && replace(worker)

      # Kills and replaces workers whose task is overdue. A worker that has not hung long enough yet is replaced at a
      # later call, at the latest when the next future times out.
      def replace_lost
        @workers.each_value.select { |worker| worker.task&.overdue? }.each do |worker|
          worker.take_back.future.give_up
          @lost << worker
          worker.kill
          replace(worker)
        end
      end

      # Starts another worker in its place, unless this one was never ready. Each input of its task is tried once more,
      # alone. An input that fails this way twice gets an error.
      def replace(worker)
        @workers.delete(worker.id)
        try_again(worker.task, worker) if worker.task
        return if @closed

        @missing += 1 if worker.ready?
        spawn_workers
        @bus&.publish("worker.replaced", worker: "#{@name}##{worker.id}")
      end

      def try_again(task, worker)
        return task.future.fulfil(task.from, [nil], { 0 => died(worker) }) if task.again

        put_back(task.singly)
      end

      def put_back(tasks) = @lock.synchronize { @waiting.unshift(*tasks) }

      def died(worker) = WorkerKilled.new("a job of #{@name}##{worker.id}")

      # The thread ends, for whatever reason: no caller waits any longer, and no worker is left.
      def finish
        @lock.synchronize { @closed = true }
        all = [*@workers.values, *@lost]
        all.each(&:kill)
        give_up([*@waiting, *all.filter_map(&:task)])
        @port.close
      end

      def report(error) = @bus&.publish("error.occurred", error: error, source: "parallel")

      def give_up(tasks)
        tasks.each { |task| task.future.give_up(ClosedError.new("pool #{@name}")) }
        nil
      end
    end
  end
end
