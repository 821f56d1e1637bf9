# frozen_string_literal: true

require "pelton/decoding/parallel/parallel"

# Four ways to have Ractors do the work of callers that are threads. Each has `call(inputs)`, which waits for the values
# in their order, and is called by several threads at once; each does the same: JSON, parsed and frozen.
module ParallelPatterns
  # Inputs for one worker in one send, where work is cut into tasks.
  TASK_SIZE = 100

  # The work of all workers.
  module Job
    module_function

    def call(document) = JSON.parse(document, freeze: true)
    def all(documents) = Ractor.make_shareable(documents.map { |document| call(document) })
  end

  # Ours: one thread coordinates, workers announce that they are ready.
  class ThreadCoordinated
    def initialize(workers)
      @pool = Pelton::Parallel.engine(:ractor, size: workers, min: 1, task_size: TASK_SIZE).start
    end

    def call(inputs) = @pool.dispatch(inputs, Job).values
    def close = @pool.close
  end

  # Each caller sends each worker a task, and does not wait for other callers.
  class PrePartitioned
    def initialize(workers)
      @workers = Array.new(workers) do
        Ractor.new do
          while (order = Ractor.receive)
            index, inputs, port = order
            port << [index, Job.all(inputs)].freeze
          end
        end
      end
    end

    def call(inputs)
      port = Ractor::Port.new
      slices = inputs.each_slice((inputs.size / @workers.size.to_f).ceil).to_a
      slices.each_with_index { |slice, index| @workers[index] << [index, slice.freeze, port].freeze }
      ParallelPatterns.collect(port, slices.size)
    end

    def close = @workers.each { |worker| worker << nil }.each(&:join)
  end

  # New Ractors for each batch.
  class Ephemeral
    def initialize(workers) = @workers = workers

    def call(inputs)
      slices = inputs.each_slice((inputs.size / @workers.to_f).ceil)
      slices.map { |slice| Ractor.new(slice.freeze) { |mine| Job.all(mine) } }.flat_map(&:value)
    end

    def close = nil
  end

  # A Ractor coordinates: callers send to it, it sends to workers that are ready.
  class Supervisor
    def initialize(workers)
      @supervisor = Ractor.new(workers) { |count| Supervisor.live(Ractor.current.default_port, count) }
    end

    def self.live(port, count)
      workers = Array.new(count) { Ractor.new(port) { |supervisor| Supervisor.work(supervisor) } }
      ready = []
      waiting = []
      until (kind, what = port.receive) && kind == :stop
        (kind == :ready ? ready : waiting) << what
        ready.shift << waiting.shift until ready.empty? || waiting.empty?
      end
      workers.each { |worker| worker << nil }.each(&:join)
    end

    def self.work(supervisor)
      supervisor << [:ready, Ractor.current].freeze
      while (order = Ractor.receive)
        index, inputs, port = order
        port << [index, Job.all(inputs)].freeze
        supervisor << [:ready, Ractor.current].freeze
      end
    end

    def call(inputs)
      port = Ractor::Port.new
      slices = inputs.each_slice(TASK_SIZE).to_a
      slices.each_with_index { |slice, index| @supervisor << [:work, [index, slice.freeze, port].freeze].freeze }
      ParallelPatterns.collect(port, slices.size)
    end

    def close
      @supervisor << [:stop].freeze
      @supervisor.join
    end
  end

  # The values of so many answers, in the order of their tasks.
  def self.collect(port, count)
    Array.new(count) { port.receive }.sort_by!(&:first).flat_map(&:last)
  ensure
    port.close
  end

  ALL = { "thread-coordinated (ours)" => ThreadCoordinated, "pre-partitioned" => PrePartitioned,
          "ephemeral" => Ephemeral, "supervisor Ractor" => Supervisor }.freeze
end
