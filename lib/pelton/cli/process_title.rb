# frozen_string_literal: true

module Pelton
  class CLI
    # Keeps the title of a server's process, as `ps` shows it, up to date with its events:
    #   pelton server: running, billing, 2 of 5 busy, lag 120
    # The numbers are at most config.stats_interval (30 s) old.
    class ProcessTitle
      # That of the parent with --processes, which serves nothing itself:
      #   pelton server: 3 of 4 processes run
      class Parent
        # count: of the processes that should run.
        #: (App, Integer) -> void
        def self.keep(app, count) = app.subscribe(new(count))

        #: (Integer) -> void
        def initialize(count)
          @count = count
          # Numbers of those that run.
          @running = []
        end

        #: (Events::Event) -> void
        def on_process_started(event)
          @running |= [event[:process]]
          Process.setproctitle(to_s)
        end

        #: (Events::Event) -> void
        def on_process_ended(event)
          @running.delete(event[:process])
          Process.setproctitle(to_s)
        end

        # "pelton server: 3 of 4 processes run"
        def to_s = "pelton server: #{@running.size} of #{@count} processes run"
      end

      # process: its number with --processes.
      #: (App, ?Integer?) -> void
      def self.keep(app, process = nil) = app.subscribe(new(process))

      #: (?Integer?) -> void
      def initialize(process = nil)
        @name = "pelton server#{" #{process}" if process}"
        @groups = []
        @workers = nil
        @numbers = nil
        @state = :starting
      end

      #: (Events::Event) -> void
      def on_app_starting(event)
        @groups = event[:groups]
        @workers = event[:concurrency]
        become(:starting)
      end

      { app_running: :running, app_resumed: :running, app_quieting: :quieting, app_quiet: :quiet,
        app_stopping: :stopping }.each do |event, state|
        define_method(:"on_#{event}") { |_| become(state) }
      end

      #: (Events::Event) -> void
      def on_workers_scaled(event) = @workers = event[:to]

      #: (Events::Event) -> void
      def on_stats_measured(event)
        lag = event[:lags].each_value.sum { |topics| topics.each_value.sum { |partitions| partitions.values.sum } }
        @numbers = "#{event[:jobs][:running]} of #{@workers} busy, lag #{lag}"
        become(@state)
      end

      # "pelton server: running, billing, 2 of 5 busy, lag 120"
      def to_s = "#{@name}: #{[@state, *@groups, *@numbers].join(", ")}"

      private

      def become(state)
        @state = state
        Process.setproctitle(to_s)
      end
    end
  end
end
