# frozen_string_literal: true

require_relative "../../server/server"
require_relative "../memory/memory"
require_relative "inline_listener"
require_relative "history"

module Pelton
  module Testing
    # The consumers of one app in a test, as a server runs them, but without threads: the test's thread runs listeners
    # and jobs. A route is active from the first time that the test names its topic.
    class Consumers
      # An error that comes again and again does not end by itself.
      ERRORS = 1_000
      private_constant :ERRORS

      #: () -> App
      attr_reader :app
      #: () -> History
      attr_reader :history

      #: (App) -> void
      def initialize(app)
        @app = app
        @config = app.config.freeze
        app.routes.freeze
        @jobs = Consuming::JobsQueue.new
        @clients = Clients.new(@config, bus: app.notifications, native: Memory, middleware: app.middleware)
        @monitor = ResourceMonitor.new(app.notifications, @config.stats_interval) { {} }
        @generations = Hash.new(0)
        @history = History.new(app.notifications)
        # An error after which a server would stop: SystemExit, for example.
        @critical = nil
        @closing = false
        # {["billing", "orders"] => InlineListener}: group and name of the route.
        @listeners = {}
      end

      # Starts the routes of this topic: of one group, or of all. Returns their listeners. Raises ConfigError.
      #: (String, ?String?) -> Array[InlineListener]
      def activate(topic, group = nil)
        routes(topic, group).map { |found, route| @listeners[[found, route.name]] ||= listen(found, route) }
      end

      # The active listeners that read a topic, of one group or of all.
      #: (String, ?String?) -> Array[InlineListener]
      def active(topic, group = nil)
        @listeners.each_value.select do |listener|
          [nil, listener.group.name].include?(group) && reads?(listener.group, topic)
        end
      end

      # {group => route} of a topic, as declared: for a retry topic, that of its main topic; for a topic that a pattern
      # matches, the pattern. Raises ConfigError if there is none.
      #: (String, ?String?) -> Hash[String, Routing::Topic]
      def routes(topic, group = nil)
        check_group(group)
        found = groups.select { |reader| [nil, reader.name].include?(group) && reads?(reader, topic) }
        raise unknown(topic, group) if found.empty?

        found.to_h { |reader| [reader.name, declared(reader, topic)] }
      end

      # All groups of the app's routes.
      #: () -> Array[Routing::Group]
      def groups = @groups ||= @app.routes.groups(@config)

      # Handles events and runs one job, if there are any. Returns false if there was nothing to do.
      #: () -> bool
      def advance
        handled = @listeners.each_value.map(&:handle_all).any?
        return handled if @jobs.size.zero?

        work
        true
      end

      # When something is due next (monotonic seconds); nil: nothing is.
      #: () -> Float?
      def next_time = @listeners.each_value.filter_map(&:next_time).min

      # Commits what is marked, as librdkafka does every few seconds.
      #: () -> void
      def commit = @listeners.each_value { |listener| listener.client.commit_marks unless listener.over? }

      # Stops all consumers, as Pelton.stop.
      #: () -> void
      def stop
        @listeners.each_value { |listener| listener.stop(Clock.now) }
        error = finish_jobs
        @listeners.each_value(&:leave)
        @listeners.clear
        raise error if error
      end

      # The test is over. No assertion comes after this, so an error of a hook is raised.
      #: () -> void
      def close
        @closing = true
        stop
      ensure
        @history.leave
      end

      def inspect = "#<#{self.class} #{@listeners.keys.map { |names| names.join(":") }.join(", ")}>"

      private

      # Returns the first error that a test must not miss, after all jobs have ended, or after ERRORS errors.
      def finish_jobs
        errors = []
        begin
          nil while advance
        rescue Exception => e # rubocop:disable Lint/RescueException -- also a failed assertion
          errors << e
          retry if errors.size < ERRORS
        end
        errors.first
      end

      def reads?(group, topic) = !group.topics.each_value.find { |route| route.match?(topic) }.nil?

      def declared(group, topic)
        patterns, named = group.topics.values.partition(&:pattern)
        route = [*named, *patterns].find { |candidate| candidate.match?(topic) }
        route.stage ? group.topics.fetch(route.stage.main) : route
      end

      def listen(group, route)
        chosen = @app.routes.groups(@config, groups: [group], topics: [route.name]).first
        InlineListener.new(chosen, @config, subscription: @clients.subscription(chosen, chosen.deserializers),
                                            jobs: @jobs, bus: @app.notifications, monitor: @monitor,
                                            producer: @app.method(:producer), generations: @generations,
                                            open_producer: @clients.producers(chosen),
                                            on_failure: ->(error, _listener = nil) { @critical = error }).start
      end

      def work
        ending = false
        Thread.handle_interrupt(Object => :never) do
          job = @jobs.pop
          ending = @closing && job.kind == :shutdown
          begin
            @history.during(job) { job.call }
          ensure
            job.clear if @jobs.finished(job)
          end
        end
        @history.raise_last(@critical, all: Memory.session.raises || ending)
      end

      def check_group(group)
        names = groups.map(&:name)
        raise ConfigError.unknown(group, names, what: "group") unless group.nil? || names.include?(group)
      end

      def unknown(topic, group)
        candidates = groups.select { |candidate| [nil, candidate.name].include?(group) }
        known = candidates.flat_map { |candidate| candidate.topics.keys }
        ConfigError.unknown(topic, known, what: "topic")
      end
    end
  end
end
