# frozen_string_literal: true

require_relative "../exactly_once"

module Pelton
  module Consuming
    # Creates the transactions of an executor: at once if its topic is `transactional`, otherwise when they are used
    # first. Any thread may use them; the executor's job opens and closes.
    class OwnTransactions
      # Guards the creation, which is rare.
      CREATION = Mutex.new
      private_constant :CREATION

      # nil: the topic is not `transactional`, and none was used yet.
      #: () -> ExactlyOnce?
      attr_reader :created

      #: (Executor, Coordinator, Routing::Topic) -> void
      def initialize(executor, coordinator, topic)
        @executor = executor
        @coordinator = coordinator
        @topic = topic
        @created = nil
        @created = create if topic.transactional
      end

      #: () -> ExactlyOnce
      def use = @created || CREATION.synchronize { @created ||= create }

      # The consumer is built; see ExactlyOnce#open. Only if the topic is `transactional`.
      #: (Job) -> void
      def open(job)
        aside(job, back: true) { @created.open } if @topic.transactional
      end

      # The consumer's end is over.
      #: (Job) -> void
      def close(job)
        aside(job) { @created.close } if @topic.transactional
      end

      private

      # For calls that wait for Kafka. A forced stop ends them at once.
      def aside(job, back: false, &block)
        @coordinator.aside(job, back: back) { Thread.handle_interrupt(Object => :immediate, &block) }
      end

      # A job that runs meanwhile gets them, too: also a transaction of a thread that the job started belongs to it.
      def create
        made = ExactlyOnce.new(@coordinator, @topic) { first_unfinished }
        until (running = @executor.running).nil?
          made.reset(*running)
          @created = made
          break if @executor.running.equal?(running)
        end
        made.over if running.nil?
        made
      end

      def first_unfinished
        job = @executor.job
        @coordinator.unfinished(job).first&.offset if job&.slice
      end
    end
  end
end
