# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"

module Pelton
  module Parallel
    # The result of RactorPool#dispatch and of other engines: for each input, in order, a value or an error. Callable
    # from every thread and fiber, as often as you like. A caller that asks for a value that is not there waits, until
    # the deadline of the dispatch.
    #   future = POOL.dispatch(orders, Invoice, timeout: 30)
    #   future.each { |value, error| … } # the first ones while the last are still being made
    class Future
      include Enumerable

      # Number of inputs.
      #   future.size # => 2
      #: () -> Integer
      attr_reader :size
      # Timeout in seconds, from the dispatch on; nil: no limit.
      #: () -> Numeric?
      attr_reader :timeout

      #: (Integer, Numeric?) -> void
      def initialize(size, timeout)
        @size = size
        @timeout = timeout
        @deadline = Clock.deadline(timeout)
      end

      # Yields [value, error] of each input, as they come; one of them is nil. Without a block, returns an Enumerator.
      #   future.each { |page, error| puts error ? error.message : page }
      #: () { ([untyped, Exception?]) -> void } -> self | () -> Enumerator[[untyped, Exception?], self]
      def each
        return enum_for(:each) { @size } unless block_given?

        @size.times { |index| yield at(index) }
        self
      end

      # The value at this index. Waits for it, and raises its error.
      #   future[0] # => "<h1>…"
      #: (Integer) -> untyped
      def [](index)
        value, error = at(index)
        error ? raise(error) : value
      end

      # All values. Waits for them, and raises the first error.
      #   future.values.size # => 2
      #: () -> Array[untyped]
      def values = Array.new(@size) { |index| self[index] }

      # For Pelton: is the work done before a value is read?
      #: () -> bool
      def ahead? = false

      # Is its time over, whether it is finished or not?
      #   future.late? # => false
      #: () -> bool
      def late? = !@deadline.nil? && Clock.now >= @deadline

      def inspect = "#<#{self.class} #{@size} inputs#{", done" if done?}>"

      private

      def check(index)
        raise IndexError, "no input #{index} of #{@size}" unless index.between?(0, @size - 1)
      end

      def too_late = WaitTimeout.new("work of #{@size} inputs", nil, @timeout)
    end

    # A future whose values are made when they are read, by the first reader; other readers wait. The result of engines
    # without workers, and of other engines for too few inputs.
    class Lazy < Future
      #: (Array[untyped], untyped, ?timeout: Numeric?) -> void
      def initialize(inputs, job, timeout: nil)
        super(inputs.size, timeout)
        @inputs = inputs
        @job = job
        @lock = Mutex.new
        # Guarded by @lock: {index => lock of the thread that makes the value}. Ruby releases it even if the thread is
        # killed.
        @doing = {}
        # {index => [value, error]}. Written under that index's lock.
        @outcomes = {}
        # The error of values that were not read before the cancel; nil: not cancelled.
        @cancel = nil
      end

      #: () -> bool
      def done? = @outcomes.size == @size || !@cancel.nil?

      # Values that were not read until now get an error.
      #: () -> void
      def cancel = @cancel ||= CancelledError.new

      #: (Integer) -> [untyped, Exception?]
      def at(index)
        check(index)
        @outcomes[index] || @lock.synchronize { @doing[index] ||= Mutex.new }.synchronize do
          @outcomes[index] ||= work(@inputs[index])
        end
      end

      private

      def work(input)
        return [nil, @cancel] if @cancel
        return [nil, too_late] if late?

        [@job.call(input), nil]
      rescue StandardError, ScriptError, SystemStackError => e
        [nil, e]
      end
    end

    # Filled by a pool, task by task.
    class Pending < Future
      NOT_YET = Object.new.freeze
      private_constant :NOT_YET

      # on_late: called once when a wait times out, on the waiting thread. on_done: called once when all values are
      # there or were given up, on the thread that completed the future.
      #: (Integer, timeout: Numeric?, ?on_late: ^() -> void?, ?on_done: ^(Future) -> void?) -> void
      def initialize(size, timeout:, on_late: nil, on_done: nil)
        super(size, timeout)
        @on_late = on_late
        @on_done = on_done
        @pid = Process.pid
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Written under @lock: values in the order of the inputs; {index => error}, set before the value; number of
        # missing values.
        @values = Array.new(size, NOT_YET)
        @errors = {}
        @left = size
      end

      #: () -> bool
      def done? = @left.zero?
      #: () -> bool
      def ahead? = true

      # Missing values get an error. Work that no worker has begun is not done.
      #: () -> void
      def cancel = give_up(CancelledError.new)

      # For the pool: sets the outcomes of inputs from this index on, unless they were given up before.
      #: (Integer, Array[untyped], Hash[Integer, Exception]) -> void
      def fulfil(from, values, errors)
        change do
          errors.each { |index, error| @errors[from + index] = error }
          @values[from, values.size] = values
          @left -= values.size
        end
      end

      # Missing values get this error. Returns false if no value was missing.
      #: (?Exception) -> bool
      def give_up(error = too_late)
        change do
          @values.each_with_index do |value, index|
            next unless NOT_YET.equal?(value)

            @errors[index] = error
            @values[index] = nil
          end
          @left = 0
        end
      end

      # [value, error] of one input.
      #: (Integer) -> [untyped, Exception?]
      def at(index)
        check(index)
        @on_late&.call if NOT_YET.equal?(@values[index]) && !wait(index) && give_up
        [@values[index], @errors[index]]
      end

      private

      # Returns true if this change completed the future. Then on_done is called, even if the thread is being killed.
      def change(&block)
        Thread.handle_interrupt(Object => :never) do
          last = @lock.synchronize { @left.positive? && filled?(&block) }
          @on_done&.call(self) if last
          last
        end
      end

      def filled?
        yield
        @changed.broadcast
        @left.zero?
      end

      # Waits for a value. Returns false if the wait timed out.
      def wait(index)
        @lock.synchronize do
          while NOT_YET.equal?(@values[index])
            raise ForkError.new("work of a pool", @pid) if @pid != Process.pid
            return false if late?

            @changed.wait(@lock, Clock.left(@deadline))
          end
          true
        end
      end
    end
  end
end
