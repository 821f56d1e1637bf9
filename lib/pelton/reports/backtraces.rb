# frozen_string_literal: true

require "digest"
require_relative "../logging/log_format"
require_relative "../logging/printable"
require_relative "../runtime/clock"
require_relative "../runtime/secrets"

module Pelton
  module Reports
    # The backtraces of a process's errors, for its reports. A backtrace is long, and a failure repeats. So each one is
    # in the reports of a minute, and again after ten minutes if its error still occurs. One thread uses it.
    class Backtraces
      # Most backtraces of a report, and bytes of each with its causes.
      MOST = 3
      BYTES = 24_576
      # Most characters of a line and of a message.
      LINE = 300
      MESSAGE = 200
      # Seconds for which reports have a backtrace, and from one such time to the next.
      SENT = 60
      AGAIN = 600
      # Most backtraces of which it is known when they were sent.
      KNOWN = 100
      # since: monotonic seconds from which on reports have it. times: how many had it. row: nil when that is over.
      Sent = Struct.new(:since, :times, :row) do
        def age = Clock.now - since
      end
      private_constant :BYTES, :SENT, :AGAIN, :KNOWN, :Sent

      # The first line of an error's message, without passwords in URLs. A user's own `message` may raise.
      #: (Exception) -> String
      def self.message(error)
        Secrets.text(Printable.line(Printable.message(error).each_line(chomp: true).first, MESSAGE))
      rescue StandardError => e # a text in an odd encoding
        "(its message raised #{e.class})"
      end

      def initialize
        # {id => Sent}, those that were added first at the beginning.
        @sent = {}
      end

      # Notes where this error was raised. Returns the id of that, or nil if there is no backtrace. The same lines of
      # the same errors have the same id in each process, whatever the messages say.
      #: (Exception, Numeric) -> String?
      def add(error, at)
        parts = parts(error)
        return if parts.first[:lines].empty?

        id = Digest::SHA256.hexdigest(parts.map { |part| part.values_at(:class, :lines) }.inspect)[0, 16]
        keep(id, { id: id, at: at, parts: parts }) unless @sent[id] && @sent[id].age < AGAIN
        id
      rescue StandardError # a user's own `backtrace` or `cause` may raise
        nil
      end

      # Those that the next report has. If there are too many, it takes the ones that the fewest reports had.
      # [{id: "9f86…", at: seconds since 1970, parts: [{class: "KeyError", message: "…", lines: ["app.rb:7:in `total'",
      # …], shared: 0, more: 0}, …]}, …].
      # parts: the error, then its causes. at: when the error occurred whose messages these are. shared: further lines
      # of a cause that the part before has, too. more: lines that are left out.
      #: () -> Array[Hash[Symbol, untyped]]
      def take
        @sent.each_value { |sent| sent.row = nil if sent.age >= SENT }
        sent = @sent.values.select(&:row).min_by(MOST, &:times)
        sent.each { |taken| taken.times += 1 }.map(&:row)
      end

      private

      def keep(id, row)
        @sent.delete(id)
        @sent[id] = Sent.new(Clock.now, 0, row)
        @sent.shift if @sent.size > KNOWN
      end

      def parts(error)
        left = BYTES
        above = []
        LogFormat.chain(error).map do |cause|
          all = LogFormat.backtrace(cause)
          shared = all.reverse.zip(above.reverse).take_while { |line, same| line == same }.size
          own = all.first(all.size - shared).map { |line| Printable.line(line, LINE) }
          lines = own.take_while { |line| (left -= line.bytesize) >= 0 }
          above = all
          { class: cause.class.to_s, message: Backtraces.message(cause), lines: lines, shared: shared,
            more: own.size - lines.size }
        end
      end
    end
    private_constant :Backtraces
  end
end
