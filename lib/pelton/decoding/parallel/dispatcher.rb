# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../runtime/threads"

module Pelton
  module Parallel
    # A part of what was dispatched at once: for one worker, in one send. from: the index of its first input; begun:
    # when a worker was given it (monotonic seconds). again: is it the second try?
    Part = Struct.new(:future, :from, :inputs, :job, :begun, :again) do
      # Is it late by its worker's doing, who had at least half of the time? One that had to wait for a worker says
      # nothing of the one that has just begun it. A cancelled one may be overdue, too, and one that nobody waits for.
      #: () -> bool
      def overdue? = future.late? && Clock.now - begun >= future.timeout / 2.0

      # Each input by itself, for the second try.
      #: () -> Array[Part]
      def singly
        inputs.each_with_index.map { |input, index| Part.new(future, from + index, [input].freeze, job, nil, true) }
      end
    end

    # The one thread of a pool that coordinates: it hears of parts that wait and of workers that are ready, and brings
    # them together. It waits on one port for all of that, and does nothing else, so callers and workers never wait for
    # each other. Workers that die or do not come back are replaced.
    class Dispatcher
      # How long workers may take to end once they are killed.
      FORCE = 1.0

      #: (Class, size: Integer, name: String, ?bus: Notifications?) -> void
      def initialize(kind, size:, name:, bus: nil)
        @kind = kind
        @size = size
        @name = name
        @bus = bus
        @port = kind.mailbox
        @lock = Mutex.new
        # Guarded by @lock: parts that no worker has, and whether new ones are refused.
        @waiting = []
        @closed = false
        # The rest belongs to the thread. {id => worker} of those that get parts.
        @workers = {}
        # Those that overran their time and were killed, until they have ended.
        @lost = []
        # How many are to be hired, as soon as they may be.
        @idle_workers = size
        @ids = 0
        # It begins with what is deferred here: one killed before its first step still says that it is over.
        @thread = Thread.handle_interrupt(Object => :never) { Threads.start(name, report: method(:report)) { run } }
      end

      #: () -> bool
      def alive? = @thread.alive?

      # Never waits. false: it takes nothing any more.
      #: (Array[Part]) -> bool
      def push(parts)
        @lock.synchronize { !@closed && @waiting.concat(parts) } || (return false)
        tell(:work)
      end

      # A future's time was over.
      #: () -> void
      def late = tell(:late)

      # Nothing is begun any more; what workers have is finished.
      #: () -> void
      def retire
        @lock.synchronize { @closed = true }
        tell(:stop)
      end

      # The same, within the time. false: some had to be killed.
      #: (Numeric?) -> bool
      def close(timeout)
        retire
        return true if @thread.join(*timeout)

        tell(:force)
        @thread.kill unless @thread.join(FORCE)
        @thread.join
        false
      end

      private

      # false: the port is closed, since the thread has ended.
      def tell(what)
        @port << what
        true
      rescue StandardError
        raise unless @port.closed?

        false
      end

      def run
        Thread.handle_interrupt(Object => :immediate) do
          spawn_worker
          until @closed && @workers.empty? && @lost.empty?
            hear(*@port.receive)
            hand_out
          end
        end
      ensure
        finish
      end

      def hear(kind, id = nil, *facts)
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

      # None while more than there are to be do not end.
      def spawn_worker
        while @idle_workers.positive? && @lost.size <= @size
          @idle_workers -= 1
          @ids += 1
          @workers[@ids] = @kind.new("#{@name}##{@ids}", @ids, @port)
        end
      end

      def hand_out
        return give_up(@lock.synchronize { @waiting.slice!(0..) }) if @workers.empty? # there is nobody to wait for

        @workers.each_value.select(&:free?).each do |worker|
          part = take or break
          part.begun = Clock.now
          put_back([part]) unless worker.give(part) # one that has just died: we hear of it soon
        end
      end

      def take
        @lock.synchronize do
          return give_up(@waiting) if @closed

          part = @waiting.shift
          part = @waiting.shift while part&.future&.done? # cancelled, or too late
          part
        end
      end

      # worker: nil, if it was given up.
      def done(worker, values, failures)
        return unless worker

        errors = worker.errors(failures)
        part = worker.take_back
        part.future.fulfil(part.from, values, errors)
      end

      # Nobody says which one has ended. What one has said that has, waits at the port: it is heard first.
      def on_worker_exit
        @lost.select!(&:alive?)
        @workers.each_value.reject(&:alive?).each { |worker| @port << [:dead, worker.id].freeze }
        spawn_worker unless @closed
      end

      # worker: nil, if it was buried before.
      def replace_dead(worker) = worker && replace(worker)

      # Those whose part should have been done by now, whoever still waits for it. Who hangs, but not for long enough
      # yet, is lost with a later word: at the latest that of whoever waits for the pool in vain.
      def replace_lost
        @workers.each_value.select { |worker| worker.part&.overdue? }.each do |worker|
          worker.take_back.future.give_up
          @lost << worker
          worker.kill
          replace(worker)
        end
      end

      # Another one in its place, but not for one that never began. What it was at is tried again, each input alone; one
      # that was tried again has an error.
      def replace(worker)
        @workers.delete(worker.id)
        try_again(worker.part, worker) if worker.part
        return if @closed

        @idle_workers += 1 if worker.ready?
        spawn_worker
        @bus&.publish("worker.replaced", worker: "#{@name}##{worker.id}")
      end

      def try_again(part, worker)
        return part.future.fulfil(part.from, [nil], { 0 => died(worker) }) if part.again

        put_back(part.singly)
      end

      def put_back(parts) = @lock.synchronize { @waiting.unshift(*parts) }

      def died(worker) = WorkerKilled.new("a job of #{@name}##{worker.id}")

      # Whatever ended us: nobody waits for what does not come, and no worker is left.
      def finish
        @lock.synchronize { @closed = true }
        all = [*@workers.values, *@lost]
        all.each(&:kill)
        give_up([*@waiting, *all.filter_map(&:part)])
        @port.close
      end

      def report(error) = @bus&.publish("error.occurred", error: error, source: "parallel")

      def give_up(parts)
        parts.each { |part| part.future.give_up(ClosedError.new("pool #{@name}")) }
        nil
      end
    end
  end
end
