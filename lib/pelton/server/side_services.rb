# frozen_string_literal: true

require_relative "liveness"
require_relative "stranded_retries"

module Pelton
  # What a server runs beside its consumers: the app's background threads, the sending of later messages, reports, the
  # health endpoint and, once, the search for messages that no retry topic's consumer will get.
  class SideServices
    # The health endpoint; nil without config.liveness.port.
    #: () -> Liveness?
    attr_reader :liveness

    # scope: the background threads of the server. The block returns the state of the process for reports. process:
    # see App#start. recurring: messages of the routes.
    #: (Config, Server, scope: Background::Scope, bus: Notifications, native: Module?, process: Integer?,
    #:  recurring: Array[untyped]) { () -> Reports::ProcessState } -> void
    def initialize(config, server, scope:, bus:, native:, process:, recurring:, &process_state)
      @config = config
      @server = server
      @scope = scope
      @bus = bus
      @native = native
      @process = process
      @recurring = recurring
      @process_state = process_state
      @liveness = @retries = nil
    end

    # Starts the threads that consumers may need. backgrounds: {"prices" => [restart, block]}, the app's.
    #: (Hash[String, [bool, Proc]]) -> void
    def open(backgrounds)
      backgrounds.each { |name, (restart, block)| @scope.start(name, restart: restart, &block) }
      serve_schedule if @config.schedule_topic && @config.serve_schedule
      publish_reports if @config.report_topic
      @liveness = Liveness.new(@config.liveness, @server, @bus, @process || 0) if @config.liveness.port
    end

    # The server runs.
    #: (Array[Routing::Group]) -> void
    def start(groups)
      @liveness&.start
      (@retries = StrandedRetries.new(@config, bus: @bus, native: @native)).start(groups)
    end

    # Ends what the scope does not end.
    #: (Numeric) -> void
    def close(seconds)
      @retries&.close(seconds)
    ensure
      @liveness&.close
    end

    private

    # Like a thread of the app: it ends after the consumers, which may produce later messages to their end.
    def serve_schedule
      require_relative "../schedule/service"
      @scope.start("pelton.schedule", restart: true) do |stop|
        Schedule::Service.new(@config, recurring: @recurring, bus: @bus, native: @native, process: @process).run(stop)
      end
    end

    # To the end of the consumers, too.
    def publish_reports
      require_relative "../reports/service"
      @scope.start("pelton.reports", restart: true) do |stop|
        Reports::Service.new(@config, server: @server, bus: @bus, native: @native, &@process_state).run(stop)
      end
    end
  end
end
