# frozen_string_literal: true

require_relative "default_logger"
require_relative "error_hook"
require_relative "event_text"
require_relative "../runtime/notifications"
require_relative "repeat_limit"

module Pelton
  # Writes an app's failures to config.logger, so that they are visible without a subscriber. It subscribes to failures
  # only, so success costs nothing. RepeatLimit limits repeated lines. It also calls config.on_error. Thread-safe.
  class FailureLog
    EVENTS = %w[error.occurred kafka.log message.delivery_failed message.skipped message.dead_lettered
                message.repeated outbox.refused partition.stopped partition.unfinished producer.queue_full
                producer.fatal producer.unclosed producer.closed producer.flush_failed transaction.aborted
                group.restarting app.unhealthy app.forced process.ended consumer.unmarked consumer.method_unused
                thread.leaked worker.replaced events.delayed memory.full].freeze
    WARN = 2
    METHODS = %i[debug info warn error error].freeze
    UNDELIVERED = %w[message.delivery_failed producer.flush_failed].freeze
    private_constant :EVENTS, :WARN, :METHODS, :UNDELIVERED

    # Id of the process that is ending; nil otherwise.
    @ending = nil

    class << self
      # While this is true, the default log ignores undelivered messages, because Producer::ExitFlush counts them. A
      # child that is forked meanwhile does not end with its parent, so its log ignores nothing.
      #: (bool) -> void
      def process_ends=(ends)
        @ending = (Process.pid if ends)
      end

      #: () -> bool
      def process_ends? = @ending == Process.pid
    end

    # window: for tests.
    #: (Config, Notifications, ?window: Numeric) -> void
    def initialize(config, bus, window: RepeatLimit::WINDOW)
      @config = config
      @bus = bus
      @limit = RepeatLimit.new(window: window) { |severity, text| write(severity, text) }
      @subscribed = EVENTS.map { |name| bus.subscribe(name) { |event| log_event(event) } }
      hook = ErrorHook.new
      @subscribed << bus.subscribe("error.occurred") { |event| hook.call(@config.on_error, event) }
    end

    # For an app that begins again with other settings.
    #: (Config) -> void
    attr_writer :config

    # The failure log of a copied app, whose bus still calls this one. Returns the new log.
    #: (Config, Notifications) -> FailureLog
    def move(config, bus)
      @subscribed.each { |block| bus.unsubscribe(block) }
      FailureLog.new(config, bus)
    end

    #: () -> Numeric?
    def due = @limit.due

    #: (?last: bool) -> void
    def report(last: false) = @limit.report(last: last)

    def inspect = "#<#{self.class} #{@limit.size} kinds>"

    private

    def log_event(event)
      logger = target or return
      return if UNDELIVERED.include?(event.name) && logger.equal?(DefaultLogger) && FailureLog.process_ends?

      return if RepeatLimit::REPORTED_AS_ERROR.include?(event.payload[:facility]) || @limit.counts?(event)

      severity, text = EventText.of(event)
      return if severity < WARN && !(event.name == "transaction.aborted" && FailureLog.process_ends?)

      write(severity, text, logger) if @limit.pass?(event, severity, text)
    end

    # Where to write; nil: nowhere, or a subscriber writes the same lines there.
    def target
      logger = @config.logger
      logger unless logger.nil? || @bus.logs_failures?(@config.default_logger? ? nil : logger)
    end

    def write(severity, text, logger = target)
      return unless logger

      logger.public_send(METHODS.fetch(severity), logger.equal?(DefaultLogger) ? text : "pelton: #{text}")
    end
  end
end
