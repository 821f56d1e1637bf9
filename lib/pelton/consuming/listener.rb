# frozen_string_literal: true

require "forwardable"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"
require_relative "../runtime/resource_monitor"
require_relative "listener/closing"
require_relative "listener/rebalance"
require_relative "listener/regular_work"
require_relative "listener/status"
require_relative "listener/timers"

module Pelton
  module Consuming
    # The thread of one consumer group. It polls the subscription, hands each batch to its partition's coordinator, and
    # never waits for a job. A worker talks to it by a notice, which wakes its poll.
    #
    # Its parts: Rebalance (the partitions that it owns), Timers (when something is due), RegularWork (some of it),
    # ListenerClosing (the stop) and ListenerStatus (for health checks and reports).
    class Listener
      extend Forwardable

      # Seconds that closing the subscription may take after the deadline of a stop.
      CLOSE_AT_LEAST = ListenerClosing::CLOSE_AT_LEAST

      attr_reader :thread, :group, :subscription
      # Does this listener's timer run the checks of the resource monitor?
      attr_reader :runs_checks
      # The producer of copies of failed messages, if the group has a cluster of its own; nil: the app's producer.
      attr_reader :copier

      def_delegators :@rebalance, :coordinators, :generations
      def_delegators :@status, :assignment, :stopped, :lags, :positions, :unfinished_jobs, :unended, :leaked_threads
      def_delegators :@closing, :phases, :repeats, :unconfirmed

      # on_failure: called with an error after which the server has to stop, and with self if this listener failed.
      # producer: returns the app's producer. open_producer: returns a new one on the group's cluster, with this
      # transactional.id or nil, and the facts of its partition. runs_checks: does this listener run the checks of the
      # monitor? ahead: decodes batches eagerly; nil: off. generations: see Rebalance.
      #: (Routing::Group, Config, subscription: Subscription, jobs: JobsQueue, bus: Notifications, monitor: ResourceMonitor,
      #:  ?runs_checks: bool, ?ahead: Parallel::EagerDecoding?, ?producer: ^() -> Producer,
      #:  ?open_producer: ^(String?, ?Hash[Symbol, untyped]) -> Producer,
      #:  ?on_failure: ^(Exception, ?Listener) -> void, ?generations: Hash[String, Integer]) -> void
      def initialize(group, config, subscription:, jobs:, bus:, monitor:, runs_checks: false, ahead: nil,
                     producer: nil, open_producer: nil, on_failure: nil, generations: Hash.new(0))
        @group = group
        @monitor = monitor
        @runs_checks = runs_checks
        @ahead = ahead
        @subscription = subscription
        @bus = bus
        @producer = producer
        @open_producer = open_producer
        @copier = open_producer.call(nil) unless group.connection.empty?
        @on_failure = on_failure
        # From any thread: [:ended, coordinator], [:stop, deadline], … The sender wakes the poll after each.
        @notices = Thread::Queue.new
        # Everything below is written by the listener's thread only.
        @timers = Timers.new
        @closing = ListenerClosing.new(group, subscription, bus, @copier)
        @rebalance = Rebalance.new(self, config, jobs: jobs, bus: bus, timers: @timers, closing: @closing,
                                                 ahead: ahead, generations: generations)
        @status = ListenerStatus.new(@rebalance, subscription)
        @regular_work = RegularWork.new(group, subscription, timers: @timers, rebalance: @rebalance, closing: @closing,
                                                             monitor: (monitor if runs_checks), bus: bus)
        # Batches that came after the stop began. Keeping them keeps their credits, so no more are fetched.
        @leftovers = []
        # The listener that replaces this one after its end; nil: none.
        @successor = nil
        # Should the thread end at once?
        @over = false
        # Did it end with nothing left undone? The server reads this when the thread has ended.
        @graceful = false
      end

      #: () -> self
      def start
        # The thread starts with interrupts deferred, so that one killed before its first step is still reported.
        Thread.handle_interrupt(Object => :never) do
          @thread = Threads.start("pelton.listener[#{@group.name}]", report: method(:crashed)) { run }
        end
        self
      end

      # Stops reading. The thread ends when all jobs have ended and everything is committed, at the latest soon after
      # the deadline. From any thread; returns at once.
      #: (Float) -> void
      def stop(deadline)
        notify(:stop, deadline)
        @closing.shorten(deadline)
      end

      # Replaces a listener that has ended. Called before `start`. A partition of which a job still runs there waits for
      # that job.
      #: (Listener) -> self
      def succeed(other)
        other.successor = self
        # A coordinator that ends from here on notifies this listener.
        other.coordinators.each { |coordinator| @rebalance.wait_for(coordinator) }
        self
      end

      # Closes the subscription without a start.
      #: () -> void
      def discard = @subscription.close(CLOSE_AT_LEAST)

      # Did it end with nothing left undone?
      #: () -> bool
      def graceful? = @graceful && !@closing.uncommitted

      # --- called by coordinators, on workers' threads -------------------------------------------------------------

      def retry_at(coordinator, time) = notify(:timer, coordinator, time)

      def ended(coordinator)
        notify(:ended, coordinator)
        @successor&.ended(coordinator)
      end

      def failed(error, facts) = notify(:failed, error, facts)
      def critical(error) = @on_failure&.call(error)
      def producer = @producer&.call
      def open_producer(id, facts) = @open_producer.call(id, facts)

      def inspect = "#<#{self.class} #{@group.name}>"

      protected

      attr_writer :successor

      private

      def run
        Thread.handle_interrupt(Object => :immediate) { read }
        returned = true
      rescue Exception # rubocop:disable Lint/RescueException -- Threads.start reports it
        returned = true
        raise
      ensure
        # Interruptible, so that the end of the process need not wait for it.
        Thread.handle_interrupt(Object => :immediate) { finish }
        crashed(ListenerKilled.new(@group.name)) unless returned || @closing.stop_at
      end

      def read
        @regular_work.start
        begin_reading
        # At most one TICK: a health check sees that the thread polls.
        turn(@timers.wait(ResourceMonitor::TICK)) until over?
        @graceful = unfinished_jobs.empty? && @rebalance.empty? && !@closing.late
      end

      def over? = @over || (!@closing.stop_at.nil? && @rebalance.empty?)

      # Handles the next event of the subscription, which it waits for, then all notices and timers. Returns the event's
      # kind, or nil.
      def turn(timeout)
        kind, *facts = @subscription.poll(timeout)
        kind == :batch ? receive(*facts) : contained { handle(kind, *facts) }
        contained { handle_notice(*@notices.pop) } until @notices.empty?
        @timers.take_due.each { |what| fire(what) }
        kind
      end

      def begin_reading
        partitions = @group.assignment
        return @subscription.subscribe(@group.subscription) unless partitions

        @subscription.assign(partitions)
        partitions.each { |topic, partition| @rebalance.assign(topic, partition) }
        @regular_work.check_partition_counts
      end

      def finish
        rest = coordinators
        @closing.finish(rest) do
          Array.new(@notices.size) { @notices.pop }.filter_map { |kind, deadline| deadline if kind == :stop }
        end
        @leftovers.each(&:release)
        rest.each { |coordinator| @closing.report_repeats(coordinator) }
      end

      def notify(*notice)
        @notices << notice
        @subscription.wake
      end

      def contained
        yield
      rescue StandardError => e
        @bus.publish("error.occurred", error: e, source: "listener", group: @group.name)
      end

      # --- events of the subscription ------------------------------------------------------------------------------

      def handle(kind, *facts)
        case kind
        when :assigned then @rebalance.assigned(facts.first) unless @closing.stop_at
        when :revoked then @rebalance.revoke(*facts)
        when :eof then @rebalance.owned[facts.first(2)]&.change_state { |state| state.at_end = true }
        when :error then kafka_error(*facts)
        when :closed then closed
        end
      end

      # A failure beside the batch must not cost the batch. A failure on its way to the coordinator ends this listener:
      # with the next batch the partition would go on past this one. The listener's successor reads it again.
      def receive(batch)
        return @leftovers << batch if @closing.stop_at

        contained { @ahead.dispatch(batch) } if @ahead
        coordinator = @rebalance.owned[[batch.topic, batch.partition]]
        coordinator ||= @rebalance.assign(batch.topic, batch.partition)
        coordinator.receive(batch)
        contained { report_dropped(batch) } if batch.dropped.positive?
      end

      def report_dropped(batch)
        @bus.publish("message.dropped", group: @group.name, topic: batch.topic, partition: batch.partition,
                                        offset: batch.first_offset, count: batch.dropped, reason: :where)
      end

      def kafka_error(error, topic = nil, partition = nil)
        @timers.cancel(:join) # the log names the reason now
        @bus.publish("error.occurred", group: @group.name, topic: topic, partition: partition, error: error,
                                       source: "kafka")
        @on_failure&.call(error, self) if error.fatal?
      end

      # The subscription was closed, but not by this listener.
      def closed
        @over = true
        @on_failure&.call(ClosedError.new("subscription of group #{@group.name}"), self) unless @closing.stop_at
      end

      # --- notices -------------------------------------------------------------------------------------------------

      def handle_notice(kind, *facts)
        case kind
        when :timer then @timers.set(*facts) if @rebalance.include?(facts[0])
        when :ended
          @rebalance.ended(facts[0])
          @monitor.report_leaked(facts[0].leaked_threads)
        when :failed then @bus.publish("error.occurred", **facts[1], error: facts[0], source: "mark")
        when :stop
          deadline = @closing.begin(facts[0])
          @timers.set(:stop, deadline)
          @rebalance.shut_down(deadline)
        end
      end

      # --- timers --------------------------------------------------------------------------------------------------

      def fire(what)
        case what
        when :stop then @over = true
        when :marks, :monitor, :join, :check then contained { @regular_work.run(what) }
        when Rebalance::Revocation then contained { @rebalance.give_back(what) }
        else what.wake_up
        end
      end

      # The subscription cannot be used any more. (A subscriber may end this thread.)
      def crashed(error)
        @bus.publish("error.occurred", error: error, source: "listener", group: @group.name)
      ensure
        @on_failure&.call(error, self)
      end
    end
  end
end
