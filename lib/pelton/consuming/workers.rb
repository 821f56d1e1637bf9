# frozen_string_literal: true

require_relative "worker"

module Pelton
  module Consuming
    # The workers of a server; their number may change while it runs.
    class Workers
      include Enumerable

      # The number of workers that is set. At times more or fewer run.
      #: () -> Integer
      attr_reader :size

      #: (JobsQueue, Notifications, ?priority: Integer) -> void
      def initialize(jobs, bus, priority: 0)
        @jobs = jobs
        @bus = bus
        @priority = priority
        @lock = Mutex.new
        @size = 0
        # [Worker, …], replaced as a whole, so that a trap may read it. Some of them may have ended.
        @workers = [].freeze
        jobs.attach { @lock.synchronize { start(1) } }
      end

      #: () { (Worker) -> void } -> void
      def each(&block) = @workers.each(&block)

      # Sets the number of workers, and returns the earlier one. Additional workers start at once; surplus workers end
      # when they have no job. From any thread.
      #: (Integer) -> Integer
      def scale(size)
        @lock.synchronize do
          before = @size
          @size = @jobs.concurrency = size
          more = size - before
          if more.negative? then @jobs.remove_workers(-more)
          else start(more - @jobs.keep_workers(more))
          end
          before
        end
      end

      private

      def start(count)
        alive = @workers.reject(&:over?)
        names = (1..).lazy.map { |number| "pelton.worker##{number}" }.reject { |name| alive.map(&:name).include?(name) }
        @workers = [*alive, *names.first(count).map { |name| Worker.new(name, @jobs, @bus, @priority).start }].freeze
      end
    end
  end
end
