# frozen_string_literal: true

require_relative "event_text"

module Pelton
  # config.logger where none was set: warnings and errors to stderr, a line each. (::Logger is a gem since Ruby 4.0.)
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

    # $stderr of the moment; where that is closed, there is nobody to tell.
    def write(severity, text)
      $stderr.write(EventText.line(severity, text))
      true
    rescue IOError, SystemCallError
      false
    end
    private_class_method :write
  end
end
