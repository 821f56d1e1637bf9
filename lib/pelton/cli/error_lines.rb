# frozen_string_literal: true

require_relative "../logging/log_format"
require_relative "../logging/printable"

module Pelton
  class CLI
    # Writes why a command failed, usually to stderr: "pelton: cannot start: …". A server with JSON or logfmt logs
    # writes a line of its log instead: log collectors read both streams.
    class ErrorLines
      ERROR = 3 # a severity, as Logger::ERROR
      private_constant :ERROR

      # format: of the log; :text, :logfmt or :json.
      #: (IO, ?format: Symbol) -> void
      def initialize(io, format: :text)
        @io = io
        @format = (LogFormat.for(format, backtraces: false) unless format == :text)
      end

      #: (String) -> void
      def write(text)
        return @io.write(@format.line(ERROR, Printable.line(text), nil)) if @format

        @io.puts "pelton: #{text.each_line(chomp: true).map { |line| Printable.line(line) }.join("\n")}"
      end
    end
  end
end
