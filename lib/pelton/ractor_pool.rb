# frozen_string_literal: true

require "etc"
require_relative "clock"
require_relative "errors"
require_relative "parallel"

module Pelton
  # Ractors for work of your own that only computes: frozen in, frozen out. Templates, reports, transformations. Needs
  # Ruby 4.0.
  #   POOL = Pelton::RactorPool.new(size: 4)
  #   POOL.map(orders, Invoice)   # Invoice.call(order) for each, in the order of the orders
  # The job is an object with the method `call`, a class, a module or a block; it is frozen, as are its results. What
  # its call raises is raised here as a WorkError. Starting Ractors costs milliseconds, so keep a pool; it ends with the
  # process. From any thread of the main Ractor, also of a forked child (it has workers of its own there).
  class RactorPool
    # Once, with a pool for that call alone.
    #   Pelton::RactorPool.map(pages) { |page| Page::RENDERER.render(page) }
    #: (Enumerable[untyped], ?untyped, ?size: Integer?, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Array[untyped]
    def self.map(inputs, job = nil, size: nil, timeout: nil, &block)
      pool = new(size: size)
      pool.map(inputs, job, timeout: timeout, &block)
    ensure
      pool&.close(timeout: 0)
    end

    #: () -> Integer
    attr_reader :size

    # size: how many Ractors; nil: one for each core. Raises ConfigError below Ruby 4.0.
    #: (?size: Integer?) -> void
    def initialize(size: nil)
      Parallel.check_ruby("Pelton::RactorPool")
      @size = size || Etc.nprocessors
      fits = @size.is_a?(Integer) && @size.between?(1, 1000)
      raise ConfigError.new(:size, size, "expected an Integer, 1 to 1000") unless fits

      @pool = Parallel.engine(:ractor, size: @size, min: 1, part: 1, name: "pelton.ractors")
    end

    # What the job makes of each input, in their order, frozen. Waits, `timeout` seconds at most (WaitTimeout); raises
    # the first error, and what is not begun then is not begun any more. Inputs must be shareable: ConfigError.
    #: (Enumerable[untyped], ?untyped, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Array[untyped]
    def map(inputs, job = nil, timeout: nil, &block)
      future = dispatch(inputs, job, timeout: timeout, &block)
      future.values
    ensure
      future&.cancel
    end

    # The same without waiting: a future, whose `each` gives [value, error] of each input as they come.
    #   POOL.dispatch(pages, Renderer).each { |html, error| … }
    #: (Enumerable[untyped], ?untyped, ?timeout: Numeric?) ?{ (untyped) -> untyped } -> Parallel::Future
    def dispatch(inputs, job = nil, timeout: nil, &block)
      job = job(job, block)
      raise ConfigError.new(:inputs, inputs.class, "expected a list") unless inputs.respond_to?(:to_a)

      inputs = inputs.to_a.dup.freeze
      inputs.each_with_index do |input, index|
        hindrance = Parallel::RactorWorker.refusal(input)
        next unless hindrance

        raise ConfigError.new("input #{index}", input.class, "is not shareable: #{hindrance} (Ractor.make_shareable)")
      end
      @pool.dispatch(inputs, job, timeout: timeout)
    end

    # What runs is finished, within `timeout` seconds (else it is killed: false); nothing else is begun.
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
      raise ConfigError.new(:job, Proc, "cannot be shared with Ractors: it is no block written as one")
    end
  end
end
