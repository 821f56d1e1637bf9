# frozen_string_literal: true

require "json"
require_relative "../errors"
require_relative "doctor/brokers"
require_relative "doctor/cluster_topics"
require_relative "doctor/database"
require_relative "doctor/machine"
require_relative "doctor/options"
require_relative "doctor/registries"
require_relative "doctor/report"
require_relative "doctor/retries"
require_relative "doctor/timeouts"
require_relative "doctor/topics"
require_relative "doctor/transactions"
require_relative "doctor/units"

module Pelton
  class CLI
    # `pelton doctor`: shows what an app would run with, and why, and finds what causes trouble. It changes nothing, and
    # reports plain values without secrets.
    #   Doctor.new(app).examine.findings # => [{ level: :warning, about: "ffi", text: "1.16.3 is loaded: …" }]
    class Doctor
      # Seconds to wait for Kafka, in total.
      TIMEOUT = 10

      # groups, topics: only these. offline: connects to no broker. options: also shows librdkafka's options.
      # processes: as many will run on this machine. native: a replacement, for tests.
      #: (App, ?groups: Array[String]?, ?topics: Array[String]?, ?offline: bool, ?options: bool, ?timeout: Numeric,
      #:  ?processes: Integer, ?native: Module?) -> void
      def initialize(app, groups: nil, topics: nil, offline: false, options: false, timeout: TIMEOUT, processes: 1,
                     native: nil)
        @app = app
        @chosen = { groups: groups, topics: topics }
        @offline = offline
        @options = options
        @processes = processes
        @timeout = timeout
        @native = native || Native
      end

      # Waits for brokers up to `timeout` seconds, and as long for each schema registry. Problems are in the report, not
      # raised.
      #: () -> Report
      def examine
        report = Report.new
        groups = groups(report)
        config = @app.config
        Machine.new(config, @native, processes: @processes).examine(report)
        Database.new(config, threads: @app.background_names, processes: @processes,
                             timeout: @offline ? nil : @timeout).examine(report)
        Units.new(config, groups).examine(report)
        Timeouts.new(config, groups, @native).examine(report)
        Options.new(config, groups, @native).examine(report) if @options
        Registries.new(groups, @app.middleware.to_a, @timeout).examine(report) unless @offline
        clusters = @offline ? {} : Brokers.new(config, groups, @native, @timeout).examine(report)
        Topics.new(config, groups, clusters, @native).examine(report)
        examine_clusters(clusters, groups, report) unless clusters.empty?
        Retries.new(config, groups, clusters, @native, @timeout).examine(report)
        report
      end

      private

      def examine_clusters(clusters, groups, report)
        ClusterTopics.new(@app, groups, clusters, @timeout, some: @chosen.any?(&:last)).examine(report)
        Transactions.new(@app, groups, clusters, @timeout).examine(report)
      end

      # The groups; none if the routes are empty or invalid.
      def groups(report)
        return no_routes(report) if @app.routes.empty?

        @app.routes.groups(@app.config, **@chosen)
      rescue ConfigError => e
        report.error("routes", e.message)
        []
      end

      def no_routes(report)
        report.note("routes", "are empty: load the file that declares them with -r")
        []
      end
    end
  end
end
