# frozen_string_literal: true

require_relative "../logging/printable"

module Pelton
  # What a process does now, as text for people: each partition with what it does or waits for, and each thread with the
  # lines that it is at. Has no state.
  module StateReport
    # Lines of a thread's backtrace.
    LINES = 20
    private_constant :LINES

    module_function

    # counts: of jobs, as App#stats has them.
    #: (Server, Enumerable[Consuming::Listener], Hash[Symbol, Integer]) -> String
    def text(server, listeners, counts)
      jobs = counts.map { |kind, count| "#{count} #{kind}" }.join(", ")
      head = "pelton #{Process.pid}: #{server.status}, #{server.concurrency} workers, jobs: #{jobs}"
      partitions = listeners.flat_map do |listener|
        lines = listener.coordinators.flat_map(&:report)
        ["group #{listener.group.name}:", *indented(lines.empty? ? "no partition" : lines)]
      end
      "#{[head, *partitions].join("\n")}\n#{threads}"
    end

    # All threads of the process.
    #: () -> String
    def threads
      lines = Thread.list.flat_map do |thread|
        name = thread.name || (thread == Thread.main ? "main" : "a thread without a name")
        at = thread.equal?(Thread.current) ? ["writes this report"] : thread.backtrace.to_a.first(LINES)
        ["thread #{name} (#{thread.status || "ended"}):", *indented(at)]
      end
      "#{lines.join("\n")}\n"
    end

    def indented(lines) = Array(lines).map { |line| "  #{Printable.line(line)}" }
    private_class_method :indented
  end
end
