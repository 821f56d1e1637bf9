# frozen_string_literal: true

# Errors of work in Ractors and other pools. errors.rb loads this file.
module Pelton
  # An error in a worker Ractor. The exception itself stays there; this one has its class name, message and backtrace.
  # What to do: Look at `error_class` and the backtrace, as for the original error.
  #   WorkError.new("JSON::ParserError", "unexpected end of input", ["app.rb:12:in 'call'"])
  class WorkError < Error
    attr_reader :error_class

    # For Pelton: class name, message and backtrace of an exception, whatever its own methods do. In UTF-8, because
    # other encodings may not be joined.
    #: (Exception) -> [String, String, Array[String]]
    def self.facts(error)
      name = Module.instance_method(:to_s).bind_call(error.class)
      [name, text(error.message), error.backtrace.to_a.map { |line| text(line) }]
    rescue Exception => e # rubocop:disable Lint/RescueException
      [name.to_s, "its message cannot be read (#{e.class})", []]
    end

    private_class_method def self.text(given)
      text = String.new(given).then { |copy| copy.encoding == Encoding::BINARY ? copy.force_encoding("UTF-8") : copy }
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    end

    #: (String, ?String, ?Array[String]) -> void
    def initialize(error_class, message = "", backtrace = [])
      @error_class = error_class
      super("#{error_class}: #{message}")
      set_backtrace(backtrace)
    end
  end

  # A `Pelton::Parallel::Future` was cancelled before its work was finished.
  # What to do: Nothing, if you cancelled it; otherwise do the work again.
  class CancelledError < Error
    #: (?String) -> void
    def initialize(message = "cancelled before it was finished") = super
  end
end
