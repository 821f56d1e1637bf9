# frozen_string_literal: true

require_relative "event_text"

module Pelton
  # The default of config.logger: writes warnings and errors to stderr, one line each. It is not a ::Logger, which is a
  # gem since Ruby 4.0.
  module DefaultLogger
    module_function

    #: (?String?) ?{ () -> String } -> bool
    def debug(_text = nil) = true
    #: (?String?) ?{ () -> String } -> bool
    def info(_text = nil) = true
    #: (?String?) ?{ () -> String } -> bool
    def warn(text = nil) = write(2, text || yield)
    #: (?String?) ?{ () -> String } -> bool
    def error(text = nil) = write(3, text || yield)

    # Writes a line. Returns false if that is not possible. `io` may be any object that Ruby allows as $stderr: it has
    # `write`, but may be closed, have another encoding, or raise.
    #: (String, ?untyped) -> bool
    def put(line, io = $stderr)
      begin
        io.write(line)
      rescue EncodingError
        io.write(line.encode(Encoding::US_ASCII, invalid: :replace, undef: :replace))
      end
      true
    rescue StandardError
      false
    end

    def write(severity, text) = put(EventText.line(severity, text))
    private_class_method :write
  end
end
