# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "dispatcher"
require_relative "future"

module Pelton
  module Parallel
    # The engines with workers: threads or Ractors that live as long as the pool. They start with the first dispatch
    # (or `start`), and anew in a forked child. Everything from any thread.
    class Pool
      # What is dispatched is cut into so many parts for each worker, at most.
      PARTS = 4

      # kind: ThreadWorker or RactorWorker. min: less than that is not worth it, and is done by who asks for it.
      # part: so many inputs go to a worker at once, at least. bus: is told of workers that were replaced.
      #: (Class, size: Integer, ?min: Integer, ?part: Integer, ?name: String, ?bus: Notifications?) -> void
      def initialize(kind, size:, min: 50, part: 100, name: "pelton.parallel", bus: nil)
        @kind = kind
        @size = size
        @min = min
        @part = part
        @name = name
        @bus = bus
        @lock = Mutex.new
        # Guarded by @lock: who brings parts to workers; those of before that may not have ended; who holds it.
        @dispatcher = nil
        @retired = []
        @holders = 0
        @closed = false
      end

      # Is it worth a dispatch?
      #: (Integer) -> bool
      def worth?(count) = count >= @min && count.positive?

      # Has workers do it; never waits. inputs and job must be fit for them (Ractors: shareable). A worker that dies is
      # replaced, and each input that it was at is tried once more, alone. on_done: called when there is nothing left to
      # wait for, on any thread; it must not wait.
      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future
      def dispatch(inputs, job, timeout: nil, &on_done)
        return Lazy.new(inputs, job, timeout: timeout) unless worth?(inputs.size)

        dispatcher = running
        future = Pending.new(inputs.size, timeout: timeout, on_late: dispatcher.method(:late), on_done: on_done)
        future.give_up(closed) unless dispatcher.push(parts(future, inputs, job))
        future
      end

      # The workers, at once.
      #: () -> self
      def start = tap { running }

      # For who has several pools and may not need this one: its workers end when the last that holds it lets go.
      #: () -> self
      def hold = tap { @lock.synchronize { @holders += 1 } }

      # Never waits. A dispatch that is in work is finished, as by a close; a later one starts other workers.
      #: () -> void
      def release
        retired = @lock.synchronize do
          next unless (@holders -= 1).zero? && @dispatcher

          @retired = [*@retired.select(&:alive?), @dispatcher]
          @dispatcher.tap { @dispatcher = nil }
        end
        retired&.retire
      end

      # What workers have is finished, the rest is not begun; after `timeout` seconds they are killed (false).
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        deadline = Clock.deadline(timeout)
        dispatchers = @lock.synchronize do
          @closed = true
          [*@retired, *@dispatcher]
        end
        dispatchers.select(&:alive?).map { |one| one.close(Clock.left(deadline)) }.all?
      end

      def inspect = "#<#{self.class} #{@name} of #{@size} #{@kind.name[/\w+\z/]}s>"

      private

      def running
        current = @dispatcher
        return current if current&.alive? && !@closed

        @lock.synchronize do
          raise closed if @closed

          # A thread of the parent's is not alive in its child.
          next @dispatcher if @dispatcher&.alive?

          @dispatcher = Dispatcher.new(@kind, size: @size, name: @name, bus: @bus)
        end
      end

      def parts(future, inputs, job)
        count = (inputs.size / @part).clamp(1, PARTS * @size)
        size = (inputs.size / count.to_f).ceil
        inputs.each_slice(size).with_index.map { |part, index| Part.new(future, index * size, part.freeze, job) }
      end

      def closed = ClosedError.new("pool #{@name}")
    end
  end
end
