# frozen_string_literal: true

require_relative "../event_text"

module Pelton
  module Reporters
    # Writes everything that happens as lines of text: to an IO, or to a Logger (anything with `add(severity, text)`).
    #   Pelton.subscribe(Pelton::Reporters::Log.new($stdout))
    # Control characters are escaped (a payload or a broker cannot forge a line). An app with such a log writes its
    # failures there alone, unless config.logger was set. Thread-safe as far as its target is; one write a line.
    class Log
      #: (?(IO | Logger)) -> void
      def initialize(target = $stdout)
        @target = target
      end

      EventText.names.each do |name|
        define_method(Events.method_name(name)) { |event| write(*EventText.of(event)) }
      end

      # For FailureLog.
      #: () -> bool
      def logs_failures? = true

      private

      def write(severity, text)
        return @target.add(severity, text) if @target.respond_to?(:add)

        @target.write(EventText.line(severity, text))
      end
    end
  end
end
