# frozen_string_literal: true

require_relative "../exactly_once"

module Pelton
  module Consuming
    # Creates the transactions of an executor: at once if its topic is `transactional`, otherwise when they are used
    # first. Callable from every thread.
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

      private

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
