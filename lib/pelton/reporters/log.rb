# frozen_string_literal: true

require_relative "../logging/event_text"
require_relative "../logging/log_format"
require_relative "../logging/repeat_limit"

module Pelton
  module Reporters
    # Writes everything that happens as lines: to an IO, or to a Logger (anything with `add(severity, text)`).
    #   Pelton.subscribe(Pelton::Reporters::Log.new($stdout))
    #   Pelton.subscribe(Pelton::Reporters::Log.new($stdout, format: :json, batches: true))
    # Control characters are escaped (a payload or a broker cannot forge a line). An app with such a log writes its
    # failures there alone, unless config.logger was set and writes elsewhere. Warnings and errors that repeat are
    # counted, as config.logger counts them: a broker that is away is one line in 30 s. Not counted: information, and
    # what names a message's offset. Thread-safe as far as its target is; one write a line.
    class Log
      WARN = 2
      BATCH = "consumer.consumed"
      private_constant :WARN, :BATCH

      # format: :text, :logfmt or :json. backtraces: write the backtrace of a failure and of its causes below its line;
      # JSON always has them. batches: also a line for each call of `consume`. window: seconds in which repeated
      # failures are counted; for tests. Raises ConfigError for another format.
      #: (?(IO | Logger), ?format: Symbol, ?backtraces: bool, ?batches: bool, ?window: Numeric) -> void
      def initialize(target = $stdout, format: :text, backtraces: false, batches: false, window: RepeatLimit::WINDOW)
        @target = target
        @format = LogFormat.for(format, backtraces: backtraces)
        @limit = RepeatLimit.new(window: window) { |severity, text| write(severity, text) }
        singleton_class.undef_method(Events.method_name(BATCH)) unless batches
      end

      EventText.names.each do |name|
        define_method(Events.method_name(name)) { |event| log_event(event) }
      end

      # For FailureLog: does a logger that was set write its lines to the same place? nil: none was set.
      #: (?untyped) -> bool
      def logs_failures?(logger = nil) = logger.nil? || @target.equal?(logger) || @target.equal?(device(logger))

      private

      # What a Logger writes to. It has no reader for that.
      def device(logger) = (logger.instance_variable_get(:@logdev)&.dev if defined?(::Logger) && logger.is_a?(::Logger))

      # No other line names this offset, so it is written each time.
      def log_event(event)
        return if event.payload[:offset].nil? && @limit.counts?(event)

        severity, text = EventText.of(event)
        counted = severity >= WARN && event.payload[:offset].nil?
        write(severity, text, event) if !counted || @limit.pass?(event, severity, text)
      end

      # event: nil for a count of repeated lines.
      def write(severity, text, event = nil)
        return @target.add(severity, @format.message(text, event)) if @target.respond_to?(:add)

        @target.write(@format.line(severity, text, event))
      end
    end
  end
end
