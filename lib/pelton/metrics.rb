# frozen_string_literal: true

require_relative "../pelton"
require_relative "runtime/native"
require_relative "metrics/event_counts"
require_relative "metrics/families"

module Pelton
  # The metrics of an app as text for Prometheus. Subscribes to the app's events, and reads its state at each scrape. It
  # is a Rack app, and config.liveness.metrics serves it at /metrics beside the health checks.
  #   require "pelton/metrics"
  #   Pelton.configure { |config| config.liveness.metrics = Pelton::Metrics.new }
  # Make one per app, before its first client opens. Thread-safe. docs/guides/metrics.md lists the metrics.
  class Metrics
    OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    # Server#status from the start to the end. During a stop, jobs still run.
    RUNNING = %i[running quieting quiet stopping].freeze
    private_constant :OPEN, :PLAIN, :RUNNING

    # app: whose metrics. partitions: most partitions with series of their own; of others, only the sums are shown.
    # statistics: also count what librdkafka reports (bytes, brokers); false: its statistics stay off. series: most
    # series of each metric; further ones are counted as "other". Raises ConfigError if a client is open already.
    #   Pelton::Metrics.new(partitions: 500)
    #: (?App, ?partitions: Integer, ?statistics: bool, ?series: Integer) -> void
    def initialize(app = Pelton.app, partitions: 1000, statistics: true, series: 2000)
      { partitions: partitions, series: series }.each do |name, value|
        raise ConfigError.new(name, value, "a number of series, 0 or more") unless value.is_a?(Integer) && value >= 0
      end

      @app = app
      @partitions = partitions
      @families = Families.build(series, partitions)
      @of_routes = @families.each_value.select { |family| family.type == :counter && family.labels == Families::ROUTE }
      @counts = app.subscribe(EventCounts.new(@families, statistics: statistics))
      app.notifications.add_counter(@counts)
    end

    # Stops counting.
    #   metrics.close
    #: () -> void
    def close
      @app.unsubscribe(@counts)
      @counts.close
    end

    # All metrics as text. open: in the OpenMetrics format, otherwise in Prometheus' own.
    #   Pelton::Metrics.new.to_text # => "# HELP pelton_consumer_messages_total …"
    #: (?open: bool) -> String
    def to_text(open: false)
      @counts.synchronize { @counts.collect }
      stats = @app.stats # after that: what it lacks is gone
      @counts.synchronize do
        measure(stats)
        text = @families.each_value.map { |family| lines(family, open) }.join
        open ? "#{text}# EOF\n" : text
      end
    end

    # For Rack: answers each GET with the metrics, in OpenMetrics if the request accepts that.
    #   map("/metrics") { run METRICS } # in config.ru
    #: (Hash[String, untyped]) -> [Integer, Hash[String, String], Array[String]]
    def call(env)
      unless %w[GET HEAD].include?(env["REQUEST_METHOD"])
        return [405, { "allow" => "GET, HEAD", "content-type" => PLAIN }, ["GET or HEAD\n"]]
      end

      open = env["HTTP_ACCEPT"].to_s.include?("application/openmetrics-text")
      [200, { "content-type" => open ? OPEN : PLAIN }, env["REQUEST_METHOD"] == "HEAD" ? [] : [to_text(open: open)]]
    end

    def inspect = "#<#{self.class} of #{@app.inspect}>"

    private

    def lines(family, open)
      samples = []
      family.each_sample { |suffix, labels, value| samples << "#{family.name}#{suffix}#{labels} #{value}\n" }
      return "" if samples.empty?

      name = family.type == :counter && !open ? "#{family.name}_total" : family.name
      "# HELP #{name} #{family.help}\n# TYPE #{name} #{family.type}\n#{samples.join}"
    end

    # Sets the gauges.
    def measure(stats)
      %i[consumer_lag_messages partition_lag_messages group_partitions partitions_assigned partitions_stopped
         longest_call_seconds long_calls jobs threads native_threads native_memory_bytes].each do |name|
        @families[name].clear
      end
      partitions(stats)
      { jobs: :jobs, threads: :threads, native_threads: :native_threads }.each do |name, key|
        stats[key].to_h.each { |label, number| @families[name].set([label], number) }
      end
      memory(stats.fetch(:memory))
      @families[:open_descriptors].set([], stats[:descriptors])
      # A process without a server, such as a web process that only produces, is not one that fails to consume.
      server(@app.server, stats[:consumers]) if @app.server
    end

    # consumers: of Pelton.stats, which has all groups that run here.
    def server(server, consumers)
      running = RUNNING.include?(server.status)
      @families[:server_running].set([], running ? 1 : 0)
      @families[:server_healthy].set([], server.healthy? ? 1 : 0)
      return unless running

      consumers.each { |group, topics| @families[:group_partitions].set([group], topics.each_value.sum(&:size)) }
    end

    # memory: of Pelton.stats. The budget and the resident memory are not parts of the native memory.
    def memory(memory)
      @families[:memory_budget_bytes].set([], memory[:budget])
      @families[:resident_memory_bytes].set([], memory[:resident])
      memory.except(:budget, :resident).each { |part, bytes| @families[:native_memory_bytes].set([part], bytes) }
    end

    def partitions(stats)
      left = @partitions
      each_topic(stats[:lags]) do |group, topic, lags|
        @families[:consumer_lag_messages].set([group, topic], lags.each_value.sum)
        lags.sort.first(left).each { |number, lag| partition([group, topic, number], lag) }
        left = [left - lags.size, 0].max
      end
      each_topic(stats[:stopped]) { |*route, found| @families[:partitions_stopped].set(route, found.size) }
      each_topic(stats[:consumers]) { |*route, found| assigned(route, found.size) }
      forget_ages(stats[:consumers])
      calls(stats)
    end

    # The topic's counters begin at 0, because Prometheus sees no growth in a first value.
    def assigned(route, partitions)
      @families[:partitions_assigned].set(route, partitions)
      @of_routes.each { |counter| counter.cell(route) }
      topic = @app.server&.route(*route) or return
      topic.drop_reasons.each { |reason| @families[:consumer_dropped_messages].cell([*route, reason]) }
      Families::OUTCOMES.each { |outcome| @families[:transactions].cell([*route, nil, outcome]) } if topic.transactional
    end

    # A call may end after its partition was revoked.
    def forget_ages(owned)
      @families[:partition_lag_seconds].delete_if { |(group, topic, number)| !owned.dig(group, topic)&.key?(number) }
    end

    def calls(stats)
      each_topic(stats[:calls]) do |group, topic, found|
        @families[:longest_call_seconds].set([group, topic], found.each_value.max)
        @families[:long_calls].set([group, topic], stats[:long_calls].dig(group, topic).to_h.size)
      end
    end

    # A partition without lag is not late, whatever its last message was.
    def partition(labels, lag)
      @families[:partition_lag_messages].set(labels, lag)
      @families[:partition_lag_seconds].set(labels, 0) if lag.zero?
    end

    def each_topic(groups) = groups.each { |group, topics| topics.each { |topic, found| yield group, topic, found } }
  end
end
