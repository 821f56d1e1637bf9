# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../execution/flow"
require_relative "../partition/coordinator"

module Pelton
  module Consuming
    # The partitions of a listener: creates a coordinator when a partition is assigned, ends it when the partition is
    # revoked, and returns the revocation to Kafka when its coordinators have ended. Only the listener's thread changes
    # it; other threads may call `coordinators` and the readers.
    class Rebalance
      # A revocation whose coordinators have not ended yet: the native token, and [coordinator, …].
      Revocation = Struct.new(:token, :coordinators)

      # {["orders", 0] => coordinator} of the partitions that this process owns and that are not ending.
      #: () -> Hash[[String, Integer], Coordinator]
      attr_reader :owned

      # generations: how often a partition was assigned so far, by group: {"billing" => 12}. Shared by the app's
      # listeners; this object counts its own group.
      #: (Listener, Config, jobs: JobsQueue, bus: Notifications, timers: Timers, closing: ListenerClosing,
      #:  ahead: Parallel::EagerDecoding?, generations: Hash[String, Integer]) -> void
      def initialize(listener, config, jobs:, bus:, timers:, closing:, ahead:, generations:)
        @listener = listener
        @group = listener.group
        @subscription = listener.subscription
        @revocation_timeout = config.revocation_timeout
        @executor = { background_timeout: config.background_timeout, tracer: config.tracer,
                      around_job: Around.jobs(config.reloader, config.around_job) }.freeze
        @jobs = jobs
        @bus = bus
        @timers = timers
        @closing = closing
        @ahead = ahead
        @generations = generations
        @owned = {}
        # {["orders", 0] => 1}: the generation of each partition that Kafka has not taken away yet. During a stop, a
        # coordinator may end before that. The listener's thread alone uses it.
        @assigned = {}
        # When the rebalance began that is not finished (monotonic seconds); nil: none runs.
        @began = nil
        # {coordinator => ["orders", 0]}: revoked, but not ended.
        @leaving = {}.compare_by_identity
        @stopping = false
      end

      # All coordinators that have not ended. From any thread.
      #: () -> Array[Coordinator]
      def coordinators = [*@owned.values, *@leaving.keys]

      # Have all coordinators ended?
      #: () -> bool
      def empty? = @owned.empty? && @leaving.empty?

      # Is it a coordinator of this listener, or of the one before it, that has not ended?
      #: (Coordinator) -> bool
      def include?(coordinator) = @owned.value?(coordinator) || @leaving.key?(coordinator)

      # {["orders", 0] => 1, …}: the generation of each owned partition. From any thread.
      #: () -> Hash[[String, Integer], Integer]
      def generations = @owned.values.to_h { |owned| [[owned.topic_name, owned.partition], owned.generation] }

      # A partition that is assigned again waits for this coordinator of a former listener.
      #: (Coordinator) -> void
      def wait_for(coordinator)
        @leaving[coordinator] = [coordinator.topic_name, coordinator.partition] unless coordinator.ended
      end

      # Kafka assigned these partitions, besides those that it has: [["orders", 0], …].
      #: (Array[[String, Integer]]) -> void
      def assigned(partitions)
        @timers.cancel(:join)
        began = @began || start_rebalance(0, false)
        partitions.each { |topic, partition| assign(topic, partition) }
        @began = nil
        @bus.publish("rebalance.finished", group: @group.name, assigned: partitions.size, partitions: @owned.size,
                                           seconds: Clock.now - began)
      end

      # The partition's coordinator; a new one if it has none.
      #: (String, Integer) -> Coordinator
      def assign(topic, partition)
        @owned[[topic, partition]] ||= begin
          held = @leaving.value?([topic, partition])
          generation = @assigned[[topic, partition]] = @generations[@group.name] += 1
          @bus.publish("partition.assigned", group: @group.name, topic: topic, partition: partition,
                                             generation: generation)
          route = @group.topic(topic)
          Coordinator.new(route, partition, group: @group.name, flow: Flow.for(route, @bus), jobs: @jobs, bus: @bus,
                                            subscription: @subscription, owner: @listener, held: held,
                                            generation: generation, **@executor).start
        end
      end

      # Ends these partitions: [["orders", 0], …]. Their running jobs are awaited and `revoked` is called, then the
      # revocation returns to Kafka. A lost partition belongs to another member already, so nothing is awaited.
      #: (untyped, Array[[String, Integer]], bool) -> void
      def revoke(token, partitions, lost)
        @began ||= start_rebalance(partitions.size, lost) unless @closing.stop_at
        ending = partitions.filter_map { |key| @owned.delete(key)&.tap { |coordinator| @leaving[coordinator] = key } }
        partitions.each do |topic, partition|
          @ahead&.cancel(topic, partition)
          @bus.publish("partition.revoked", group: @group.name, topic: topic, partition: partition, lost: lost,
                                            generation: @assigned.delete([topic, partition]))
        end
        revocation = Revocation.new(token, ending.dup)
        deadline = [Clock.now + @revocation_timeout, *@closing.stop_at].min
        lost || ending.empty? ? give_back(revocation) : @timers.set(revocation, deadline)
        ending.each { |coordinator| coordinator.end(:revoked, deadline) }
      end

      # Returns the revocation to Kafka: its coordinators have ended, or their time is up.
      #: (Revocation) -> void
      def give_back(revocation)
        @timers.cancel(revocation)
        given = revocation.coordinators.each(&:store_marks)
        calls = given.to_h { |coordinator| [coordinator, coordinator.abandon] }
        @subscription.revoked(revocation.token)
        calls.each { |coordinator, unfinished| @closing.report_given(coordinator, unfinished) }
      end

      # A coordinator has ended. A new one of the same partition may begin now.
      #: (Coordinator) -> void
      def ended(coordinator)
        @closing.report_repeats(coordinator)
        @timers.cancel(coordinator)
        key = @leaving.delete(coordinator) || @owned.key(coordinator)
        @owned.delete(key) if @owned[key].equal?(coordinator)
        @timers.pending.grep(Revocation).each do |revocation|
          give_back(revocation) if revocation.coordinators.delete(coordinator) && revocation.coordinators.empty?
        end
        @owned[key]&.unhold unless @leaving.value?(key)
      end

      # Ends all partitions because the listener stops. Called again if the deadline is moved up.
      #: (Float) -> void
      def shut_down(deadline)
        @closing.count_given(@leaving.each_key.select(&:gone?)) unless @stopping
        @stopping = true
        coordinators.each do |coordinator|
          @ahead&.cancel(coordinator.topic_name, coordinator.partition)
          coordinator.end(:shutdown, deadline)
        end
      end

      private

      # Returns when it began.
      def start_rebalance(revoked, lost)
        @bus.publish("rebalance.started", group: @group.name, revoked: revoked, lost: lost)
        Clock.now
      end
    end
  end
end
