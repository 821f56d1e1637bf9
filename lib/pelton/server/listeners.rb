# frozen_string_literal: true

require_relative "../consuming/listener"

module Pelton
  # The listeners of a server, one per group: opens them with their clients, and reports their partitions. Other threads
  # may read it while Restarts replaces a listener.
  class Listeners
    include Enumerable

    # clients: opens subscriptions and producers. engines: of the server. shared: what every listener gets, see
    # Consuming::Listener.
    #: (Config, clients: Clients, engines: Parallel::Engines, bus: Notifications, **untyped) -> void
    def initialize(config, clients:, engines:, bus:, **shared)
      @config = config
      @clients = clients
      @engines = engines
      @shared = { bus: bus, **shared }
      # [Listener, …] in the order of the groups.
      @listeners = []
    end

    #: () { (Consuming::Listener) -> void } -> untyped
    def each(&block) = @listeners.each(&block)

    # Opens a listener for each group, without starting it. Raises ConfigError; the listeners that are open then stay in
    # the list.
    #: (Array[Routing::Group]) -> void
    def open(groups)
      groups.each do |group|
        @listeners << build(group, runs_checks: @listeners.empty?)
      end
    end

    # Opens another listener for the group of one that failed, puts it in its place in the list, and returns it.
    #: (Consuming::Listener) -> Consuming::Listener
    def replace(failed)
      successor = build(failed.group, runs_checks: failed.runs_checks)
      @listeners[@listeners.index(failed)] = successor
    end

    #: () -> Array[Thread]
    def threads = @listeners.filter_map(&:thread)

    # Closes listeners that have no thread yet, and asks the other ones to stop at once.
    #: () -> void
    def cancel
      @listeners.each { |listener| listener.thread ? listener.stop(Clock.now) : listener.discard }
    end

    # See Server#assignments.
    #: (String?) -> Hash[String, Array[Integer]]
    def assignments(group)
      partitions = of(group).flat_map(&:assignment).uniq.sort
      partitions.group_by(&:first).transform_values { |list| list.map(&:last) }
    end

    # See App#generations.
    #: (String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group)
      all = of(group).map(&:generations).inject({}) { |merged, some| merged.merge(some) { |_, *both| both.max } }
      all.sort.each_with_object({}) do |((topic, partition), number), found|
        (found[topic] ||= {})[partition] = number
      end
    end

    # See Server#route.
    #: (String, String) -> Routing::Topic?
    def route(group, topic) = of(group).first&.then { |listener| listener.group.topic(topic) }

    # The partitions' numbers in App#stats.
    #: () -> Hash[Symbol, untyped]
    def stats
      threads = ->(coordinator) { coordinator.executors.sum { |executor| executor.scope.size } }
      alive = ->(coordinator) { coordinator.executors.count(&:alive?) }
      { consumers: per_partition(&alive), consumer_threads: per_partition(&threads),
        lags: @listeners.to_h { |listener| [listener.group.name, listener.lags] },
        stopped: @listeners.to_h { |listener| [listener.group.name, listener.stopped] }, **calls }
    end

    private

    def of(group) = @listeners.select { |listener| group.nil? || listener.group.name == group }

    def build(group, runs_checks:)
      deserializers = @engines.deserializers(group)
      Consuming::Listener.new(group, @config, subscription: @clients.subscription(group, deserializers),
                                              runs_checks: runs_checks,
                                              ahead: @engines.ahead(group, deserializers),
                                              open_producer: @clients.producers(group), **@shared)
    end

    # Seconds that the longest present call of each partition runs, 0 without one; and those that are long.
    def calls
      now = per_partition { |coordinator| coordinator.executors.filter_map { |executor| executor.busy&.last }.max || 0 }
      long = @listeners.to_h do |listener|
        name = listener.group.name
        topics = now.fetch(name, {}).to_h do |topic, all|
          limit = listener.group.topic(topic).long_call
          [topic, all.select { |_, seconds| seconds >= limit }]
        end
        [name, topics.reject { |_, all| all.empty? }]
      end
      { calls: now, long_calls: long }
    end

    # {"billing" => {"orders" => {0 => 12}}}: the sum of the block's values for the partition's coordinators. A
    # partition has two while one waits for the other's end.
    def per_partition(&block)
      @listeners.to_h do |listener|
        topics = listener.coordinators.group_by(&:topic_name)
        topics.transform_values! { |list| list.group_by(&:partition).transform_values { |same| same.sum(&block) } }
        [listener.group.name, topics]
      end
    end
  end
end
