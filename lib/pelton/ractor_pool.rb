# frozen_string_literal: true

require_relative "runtime/clock"
require_relative "runtime/container"
require_relative "errors"
require_relative "decoding/parallel/parallel"

module Pelton
  # Runs computations of your own in Ractors: templates, reports, transformations. Frozen objects go in and come out.
  # Needs Ruby 4.0.
  #   POOL = Pelton::RactorPool.new(size: 4)
  #   POOL.map(orders, Invoice)   # Invoice.call(order) for each, in the order of the orders
  # The job is an object with `call`, a class, a module or a block. Pelton freezes it and its results. If `call` raises,
  # the caller gets a WorkError. Starting Ractors takes milliseconds, so keep a pool; it ends with the process. Callable
  # from every thread of the main Ractor, also in a forked child, which has its own workers.
  class RactorPool
    # Runs the job once, with a pool for this call alone.
    #   Pelton::RactorPool.map(pages) { |page| Page::RENDERER.render(page) }
    # size: number of Ractors; nil: one per core. timeout: seconds in all. Raises what `new` and `map` raise.
    #: (Enumerable[untyped], ?untyped, ?size: Integer?, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Array[untyped]
    def self.map(inputs, job = nil, size: nil, timeout: nil, &block)
      pool = new(size: size)
      pool.map(inputs, job, timeout: timeout, &block)
    ensure
      pool&.close(timeout: 0)
    end

    # Number of Ractors.
    #   POOL.size # => 4
    #: () -> Integer
    attr_reader :size

    # size: number of Ractors, 1 to 1000; nil: one per core. Raises ConfigError for other sizes, and below Ruby 4.0.
    #   Pelton::RactorPool.new(size: 4)
    #: (?size: Integer?) -> void
    def initialize(size: nil)
      Parallel.check_ruby("Pelton::RactorPool")
      @size = size || Container.cores
      fits = @size.is_a?(Integer) && @size.between?(1, 1000)
      raise ConfigError.new(:size, size, "expected an Integer, 1 to 1000") unless fits

      @pool = Parallel.engine(:ractor, size: @size, min: 1, task_size: 1, name: "pelton.ractors")
    end

    # Returns what the job makes of each input, in their order, frozen. Waits up to `timeout` seconds (nil: no limit).
    #   POOL.map([1, 2].freeze) { |number| number * 2 } # => [2, 4]
    # Raises the first error (WorkError), WaitTimeout, and ConfigError for inputs or a job that are not shareable. After
    # an error, inputs that have not begun are not begun any more. Callable from every thread of the main Ractor.
    #: (Enumerable[untyped], ?untyped, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Array[untyped]
    def map(inputs, job = nil, timeout: nil, &block)
      future = dispatch(inputs, job, timeout: timeout, &block)
      future.values
    ensure
      future&.cancel
    end

    # The same without waiting. Returns a future whose `each` yields [value, error] of each input, in their order, as
    # they come.
    #   POOL.dispatch(pages, Renderer).each { |html, error| puts error ? error.message : html }
    # Raises ConfigError for inputs or a job that are not shareable.
    #: (Enumerable[untyped], ?untyped, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Parallel::Future
    def dispatch(inputs, job = nil, timeout: nil, &block)
      job = job(job, block)
      raise ConfigError.new(:inputs, inputs.class, "expected an Array or Enumerable") unless inputs.respond_to?(:to_a)

      inputs = inputs.to_a.dup.freeze
      inputs.each_with_index do |input, index|
        hindrance = Parallel::RactorWorker.refusal(input)
        next unless hindrance

        raise ConfigError.new("input #{index}", input.class, "is not shareable: #{hindrance} (Ractor.make_shareable)")
      end
      @pool.dispatch(inputs, job, timeout: timeout)
    end

    # Finishes what runs and begins nothing else. After `timeout` seconds (10 s) it kills the workers and returns false.
    #   POOL.close # => true
    #: (?timeout: Numeric?) -> bool
    def close(timeout: 10) = @pool.close(timeout: timeout)

    def inspect = "#<#{self.class} of #{@size}>"

    private

    def job(given, block)
      job = block || given
      unless job.respond_to?(:call) && (given.nil? || block.nil?)
        raise ConfigError.new(:job, given.class, "expected an object with the method call, or a block")
      end
      return shareable(job) if job.is_a?(Proc)

      Parallel.check(:ractor, job, :job)
      job
    end

    def shareable(block)
      Ractor.shareable_proc(&block)
    rescue Ractor::IsolationError => e
      raise ConfigError.new(:job, Proc, "cannot be shared with Ractors: #{e.message}")
    rescue RuntimeError, ArgumentError # of a Method's, or of curry or >>
      raise ConfigError.new(:job, Proc, "cannot be shared with Ractors: write it as a block, not by method or curry")
    end
  end
end
