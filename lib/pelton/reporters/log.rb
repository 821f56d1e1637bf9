# frozen_string_literal: true

require_relative "../logging/event_text"
require_relative "../logging/repeat_limit"

module Pelton
  module Reporters
    # Writes everything that happens as lines of text: to an IO, or to a Logger (anything with `add(severity, text)`).
    #   Pelton.subscribe(Pelton::Reporters::Log.new($stdout))
    # Control characters are escaped (a payload or a broker cannot forge a line). An app with such a log writes its
    # failures there alone, unless config.logger was set. Warnings and errors that repeat are counted, as config.logger
    # counts them: a broker that is away is one line in 30 s. Not counted: information, and what names a message's
    # offset. Thread-safe as far as its target is; one write a line.
    class Log
      WARN = 2
      private_constant :WARN

      # window: seconds in which repeated failures are counted; for tests.
      #: (?(IO | Logger), ?window: Numeric) -> void
      def initialize(target = $stdout, window: RepeatLimit::WINDOW)
        @target = target
        @limit = RepeatLimit.new(window: window) { |severity, text| write(severity, text) }
      end

      EventText.names.each do |name|
        define_method(Events.method_name(name)) { |event| log_event(event) }
      end

      # For FailureLog.
      #: () -> bool
      def logs_failures? = true

      private

      # No other line names this offset, so it is written each time.
      def log_event(event)
        return if event.payload[:offset].nil? && @limit.counts?(event)

        severity, text = EventText.of(event)
        counted = severity >= WARN && event.payload[:offset].nil?
        write(severity, text) if !counted || @limit.pass?(event, severity, text)
      end

      def write(severity, text)
        return @target.add(severity, text) if @target.respond_to?(:add)

        @target.write(EventText.line(severity, text))
      end
    end
  end
end
