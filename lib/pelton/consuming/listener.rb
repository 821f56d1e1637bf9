# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"
require_relative "../runtime/resource_monitor"
require_relative "partition/coordinator"
require_relative "execution/flow"
require_relative "listener/closing"

module Pelton
  module Consuming
    # The thread of one consumer group: takes what the subscription brings to the partitions' coordinators, and never
    # waits for a job. What workers have to say comes as a notice and wakes its poll.
    class Listener
      include ListenerClosing

      # A revocation that waits for its partitions to end.
      Revocation = Struct.new(:token, :coordinators)

      # How long a question at the start may take.
      CHECK = 5
      private_constant :Revocation, :CHECK

      attr_reader :thread, :group, :looks, :subscription
      # Sends copies of failed messages where the group has a cluster of its own; nil: the app's producer does.
      attr_reader :copier
      # Seconds that the parts of the stop took: {jobs: 1.2, leave: 0.1}; `leave` is the last commit with it.
      attr_reader :phases
      # What a stop leaves finished and not committed, a String each. Asked when it is over.
      attr_reader :repeats

      # on_failure: called with an error after which the server has to stop, and with self if it is we who failed.
      # producer: the app's, when asked for. open_producer: a new one, where the group is, with this id or nil.
      # looks: is it this listener's timer that lets the monitor check? ahead: is told of each batch as it comes, if
      # any.
      # generations: of the app's groups, {"billing" => how many partitions it was given so far}; ours we count.
      #: (Routing::Group, Config, subscription: Subscription, jobs: JobsQueue, bus: Notifications, monitor: ResourceMonitor,
      #:  ?looks: bool, ?ahead: Parallel::EagerDecoding?, ?producer: ^() -> Producer, ?open_producer: ^(String?) -> Producer,
      #:  ?on_failure: ^(Exception, ?Listener) -> void, ?generations: Hash[String, Integer]) -> void
      def initialize(group, config, subscription:, jobs:, bus:, monitor:, looks: false, ahead: nil,
                     producer: nil, open_producer: nil, on_failure: nil, generations: Hash.new(0))
        @group = group
        @revocation_timeout = config.revocation_timeout
        @background_timeout = config.background_timeout
        @monitor = monitor
        @looks = looks
        @ahead = ahead
        @subscription = subscription
        @jobs = jobs
        @bus = bus
        @producer = producer
        @open_producer = open_producer
        @copier = open_producer.call(nil) unless group.place.empty?
        @on_failure = on_failure
        # From any thread: [:ended, coordinator], [:stop, deadline] … A push is followed by a wake.
        @notices = Thread::Queue.new
        # The rest belongs to its thread. {["orders", 0] => coordinator} of the partitions that are ours and do not end.
        @coordinators = {}
        @generations = generations
        # {coordinator => ["orders", 0]}: revoked, but not ended.
        @leaving = {}.compare_by_identity
        # {coordinator, revocation, :monitor, :check or :stop => when (monotonic seconds)}
        @timers = {}.compare_by_identity
        # Batches that came after the stop: kept so that their credits bring no more.
        @leftovers = []
        # The listener in our place, after our end.
        @successor = nil
        # Set by a stop: when it began, when it ends by force; and when the close began, which others read, too.
        @stopping_since = @stop_at = @leaving_since = nil
        @phases = {}
        @over = @late = @graceful = false # read by the server when the thread has ended
        @repeats = []
      end

      #: () -> self
      def start
        # The new thread begins with what we defer: one killed before its first step tells of it, too.
        Thread.handle_interrupt(Object => :never) do
          @thread = Threads.start("pelton.listener[#{@group.name}]", report: method(:crashed)) { run }
        end
        self
      end

      # Stops reading; ends when all jobs have and everything is committed, at the latest soon after the deadline.
      # From any thread; returns at once.
      #: (Float) -> void
      def stop(deadline)
        notify(:stop, deadline)
        @subscription.hurry(time_to_leave(deadline)) if @leaving_since
      end

      # Takes the place of one that is over, before the start: partitions of which a job still runs there wait for it.
      #: (Listener) -> self
      def succeed(other)
        other.successor = self
        # Who ends from here on tells us.
        other.coordinators.each { |one| @leaving[one] = [one.topic_name, one.partition] unless one.ended }
        self
      end

      # Instead of a start.
      #: () -> void
      def discard = @subscription.close(CLOSE_AT_LEAST)

      # Did it end with nothing left undone?
      #: () -> bool
      def graceful? = @graceful

      # What is left undone, a String each.
      #: () -> Array[String]
      def unfinished_work = coordinators.flat_map(&:unfinished_work)

      # What is marked, and not committed: nil if nothing. Asked when it is over, or has to be.
      #: () -> NotCommitted?
      def unconfirmed
        offsets = @subscription.unconfirmed
        NotCommitted.new(@group.name, offsets) if offsets.any?
      end

      # What consumers did not get: "orders/0: shutdown was not finished". Asked when all is over.
      #: () -> Array[String]
      def unended
        coordinators.flat_map do |one|
          one.due.map { |hook| "#{one.topic_name}/#{one.partition}: #{hook} was not finished" }
        end
      end

      # Threads that its consumers left behind, those apart whose end it saw. Asked when all is over.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads = coordinators.map(&:leaked_threads).inject({}, :merge)

      # The partitions that are ours and do not end: [["orders", 0], …]. From any thread, as `coordinators`.
      #: () -> Array[[String, Integer]]
      def assignment = @coordinators.keys

      # The same with the generation of each: {["orders", 0] => 1, …}
      #: () -> Hash[[String, Integer], Integer]
      def generations = @coordinators.values.to_h { |one| [[one.topic_name, one.partition], one.generation] }

      # The offsets at which partitions gave up: {"orders" => {0 => 41}}
      #: () -> Hash[String, Hash[Integer, Integer]]
      def stopped
        @coordinators.values.select(&:stopped).each_with_object({}) do |one, found|
          (found[one.topic_name] ||= {})[one.partition] = one.stopped
        end
      end

      # Of all partitions whose consumers live.
      #: () -> Array[Coordinator]
      def coordinators = [*@coordinators.values, *@leaving.keys]

      # {"orders" => {0 => 12}}: messages of each of our partitions that are not done, as far as it is known. From any
      # thread.
      #: () -> Hash[String, Hash[Integer, Integer]]
      def lags
        @subscription.ends.each_with_object({}) do |(topic, partition, position, finish), lags|
          coordinator = @coordinators[[topic, partition]]
          next unless coordinator && finish

          (lags[topic] ||= {})[partition] = coordinator.progress { |progress, _| progress.lag(position, finish) }
        end
      rescue ClosedError
        {}
      end

      # --- what coordinators tell, from workers' threads -----------------------------------------------------------

      def retry_at(coordinator, time) = notify(:timer, coordinator, time)

      def ended(coordinator)
        notify(:ended, coordinator)
        @successor&.ended(coordinator)
      end

      def failed(error, facts) = notify(:failed, error, facts)
      def critical(error) = @on_failure&.call(error)
      def producer = @producer&.call
      def open_producer(id) = @open_producer.call(id)

      def inspect = "#<#{self.class} #{@group.name}>"

      protected

      attr_writer :successor

      private

      def run
        Thread.handle_interrupt(Object => :immediate) { read }
        returned = true
      rescue Exception # rubocop:disable Lint/RescueException -- told by the thread's report
        returned = true
        raise
      ensure
        # So that the end of the process need not wait for it.
        Thread.handle_interrupt(Object => :immediate) { finish }
        crashed(ListenerKilled.new(@group.name)) unless returned || @stop_at
      end

      def read
        @timers[:monitor] = Clock.now + @monitor.tick if @looks
        begin_reading
        until over?
          kind, *facts = @subscription.poll(wait)
          kind == :batch ? receive(*facts) : contained { handle(kind, *facts) }
          contained { notice(*@notices.pop) } until @notices.empty?
          fire
        end
        @graceful = unfinished_work.empty? && @leaving.empty? && @coordinators.empty? && !@late
      end

      def begin_reading
        places = @group.assignment
        return @subscription.subscribe(@group.subscription) unless places

        @subscription.assign(places)
        places.each { |topic, partition| assign(topic, partition) }
        @timers[:check] = Clock.now
      end

      # Each question may wait for Kafka: a stop is heard between two of them.
      def check
        topic = (@unchecked ||= @group.topics.keys).shift
        return if topic.nil? || @stop_at

        @timers[:check] = Clock.now
        @group.check_partition_count(topic, @subscription.partition_count(topic, CHECK))
      end

      def over? = @over || (@stop_at && @coordinators.empty? && @leaving.empty?)

      # Seconds until the next timer, and never for long: who asks whether it polls sees that it does.
      def wait
        return ResourceMonitor::TICK if @timers.empty?

        [Clock.left(@timers.values.min), ResourceMonitor::TICK].min
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
        when :assigned then facts.first.each { |topic, partition| assign(topic, partition) } unless @stop_at
        when :revoked then revoke(*facts)
        when :eof then @coordinators[facts.first(2)]&.control { |control| control.at_end = true }
        when :error then error(*facts)
        when :closed then closed
        end
      end

      # Whatever fails beside it costs the batch nothing. What keeps it from its coordinator is our end, for with the
      # next one there the partition would go on past it: who begins anew reads it again.
      def receive(batch)
        return @leftovers << batch if @stop_at

        contained { @ahead&.dispatch(batch) }
        assign(batch.topic, batch.partition).receive(batch)
        contained { tell_dropped(batch) } if batch.dropped.positive?
      end

      def tell_dropped(batch)
        @bus.publish("message.dropped", group: @group.name, topic: batch.topic, partition: batch.partition,
                                        offset: batch.first_offset, count: batch.dropped, reason: :where)
      end

      # The partition's coordinator, a new one if need be.
      def assign(topic, partition)
        @coordinators[[topic, partition]] ||= begin
          held = @leaving.value?([topic, partition])
          generation = @generations[@group.name] += 1
          @bus.publish("partition.assigned", group: @group.name, topic: topic, partition: partition,
                                             generation: generation)
          route = @group.topic(topic)
          Coordinator.new(route, partition, group: @group.name, flow: Flow.for(route, @bus), jobs: @jobs, bus: @bus,
                                            subscription: @subscription, owner: self, held: held,
                                            generation: generation, background_timeout: @background_timeout).start
        end
      end

      # The partitions end: running jobs are awaited, `revoked` is called, then they are given back. Lost ones are
      # another's already: nothing to wait for.
      def revoke(token, partitions, lost)
        numbers = generations
        ending = partitions.filter_map { |place| @coordinators.delete(place)&.tap { |one| @leaving[one] = place } }
        partitions.each do |topic, partition|
          @ahead&.cancel(topic, partition)
          @bus.publish("partition.revoked", group: @group.name, topic: topic, partition: partition, lost: lost,
                                            generation: numbers[[topic, partition]])
        end
        revocation = Revocation.new(token, ending.dup)
        deadline = [Clock.now + @revocation_timeout, *@stop_at].min
        lost || ending.empty? ? give_back(revocation) : @timers[revocation] = deadline
        ending.each { |coordinator| coordinator.end(:revoked, deadline) }
      end

      def give_back(revocation)
        @timers.delete(revocation)
        revocation.coordinators.each(&:abandon)
        @subscription.revoked(revocation.token)
        revocation.coordinators.each { |coordinator| tell_repeats(coordinator) }
      end

      def error(error, topic = nil, partition = nil)
        place = { group: @group.name, topic: topic, partition: partition }
        @bus.publish("error.occurred", **place, error: error, source: "kafka")
        @on_failure&.call(error, self) if error.fatal?
      end

      # Somebody else closed the subscription.
      def closed
        @over = true
        @on_failure&.call(ClosedError.new("subscription of group #{@group.name}"), self) unless @stop_at
      end

      # --- notices -------------------------------------------------------------------------------------------------

      def notice(kind, *facts)
        case kind
        when :timer then @timers[facts[0]] = facts[1] if ours?(facts[0])
        when :ended then coordinator_ended(facts[0])
        when :failed then @bus.publish("error.occurred", **facts[1], error: facts[0], source: "mark")
        when :stop then stopping(facts[0])
        end
      end

      def ours?(coordinator) = @coordinators.value?(coordinator) || @leaving.key?(coordinator)

      def coordinator_ended(coordinator)
        tell_repeats(coordinator)
        @timers.delete(coordinator)
        place = @leaving.delete(coordinator) || @coordinators.key(coordinator)
        @coordinators.delete(place) if @coordinators[place].equal?(coordinator)
        @timers.keys.grep(Revocation).each do |revocation|
          give_back(revocation) if revocation.coordinators.delete(coordinator) && revocation.coordinators.empty?
        end
        @coordinators[place]&.unhold unless @leaving.value?(place)
        @monitor.report_leaked(coordinator.leaked_threads)
      end

      # --- timers --------------------------------------------------------------------------------------------------

      def fire
        return if @timers.empty?

        now = Clock.now
        return if @timers.values.min > now

        due = @timers.filter_map { |what, time| what if time <= now }
        due.each do |what|
          @timers.delete(what)
          case what
          when :stop then @over = true
          when :monitor then contained { monitor }
          when :check then contained { check }
          when Revocation then contained { give_back(what) }
          else what.wake_up
          end
        end
      end

      def monitor
        @timers[:monitor] = Clock.now + @monitor.tick
        @monitor.check
      end

      # The client is of no use any more. (A subscriber may end this thread.)
      def crashed(error)
        @bus.publish("error.occurred", error: error, source: "listener", group: @group.name)
      ensure
        @on_failure&.call(error, self)
      end
    end
  end
end
