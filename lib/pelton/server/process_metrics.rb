# frozen_string_literal: true

require "io/wait"
require "socket"
require_relative "../errors"
require_relative "../liveness"
require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "process_series"

module Pelton
  # The metrics of all children of `pelton server --processes`, which their parent shows at config.liveness.parent_port.
  # The parent opens a socket for each child before it forks. At each request it connects to all of them, and each child
  # answers with its pid and its metrics. A restarted child has the socket of the one before.
  class ProcessMetrics
    LOCAL = "127.0.0.1"
    # Seconds for the answers of all children. Less than a connection to the parent may take.
    TIME = 3
    # Seconds without accepting after an accept failed, for instance because no descriptor is free.
    PAUSE = 0.2
    # An answer without it is not complete.
    LAST_LINE = "# EOF\n"
    # Of the metrics' Rack app, for text that any version of Prometheus reads.
    ENV = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/metrics", "HTTP_ACCEPT" => "text/plain" }.freeze
    TYPE = { "content-type" => "text/plain; version=0.0.4; charset=utf-8" }.freeze
    SIZE = 65_536
    private_constant(*constants(false))

    # Opens the sockets and the parent's port. count: of children. Raises ConfigError if the port is not free.
    #: (Config::Liveness, Integer, Notifications) -> void
    def initialize(settings, count, bus)
      port = settings.parent_port
      if settings.port&.positive? && (taken = port - settings.port).between?(0, count - 1)
        raise ConfigError.new("liveness.parent_port", port, "is the port of process #{taken}: liveness.port + #{taken}")
      end

      @metrics = settings.metrics
      @bus = bus
      @liveness = Liveness.new(settings, nil, bus, metrics: self)
      @sockets = Array.new(count) { TCPServer.new(LOCAL, 0) }
      @series = Array.new(count) { |number| ProcessSeries.new(number) }
    end

    # In the parent: answers at its port.
    #: () -> self
    def start = tap { @liveness.start }

    # In a child: answers its parent, on a thread that lives as long as the process.
    #: (Integer) -> Thread
    def serve(number)
      @liveness.close
      socket = @sockets.delete_at(number)
      @sockets.each(&:close)
      Threads.start("pelton.metrics", report: method(:report)) { loop { accept(socket) } }
    end

    # For Liveness, which serves it as it does a Rack app.
    #: (Hash[String, untyped]) -> [Integer, Hash[String, String], Array[String]]
    def call(_env)
      deadline = Clock.deadline(TIME)
      asked = @sockets.map { |socket| connect(socket.local_address.ip_port, deadline) }
      asked.zip(@series) { |socket, series| series.take(*(socket && read(socket, deadline))) }
      [200, TYPE, [ProcessSeries.text(@series)]]
    end

    private

    def connect(port, deadline)
      Socket.tcp(LOCAL, port, connect_timeout: Clock.left(deadline))
    rescue SystemCallError
      nil # too many requests wait for a child that hangs
    end

    # [pid, text]; nil: there is no complete answer.
    def read(socket, deadline)
      text = String.new
      while (part = socket.read_nonblock(SIZE, exception: false))
        next text << part unless part == :wait_readable
        return unless socket.wait_readable(Clock.left(deadline))
      end
      return unless text.end_with?(LAST_LINE)

      pid, metrics = text.force_encoding(Encoding::UTF_8).split("\n", 2)
      [Integer(pid), metrics]
    rescue SystemCallError
      nil # the child ended
    ensure
      socket.close
    end

    # --- in a child ------------------------------------------------------------------------------------------------

    def accept(listening)
      answer(listening.accept)
    rescue SystemCallError
      Clock.wait(PAUSE)
    end

    def answer(socket)
      _, _, parts = @metrics.call(ENV)
      socket.write("#{Process.pid}\n#{parts.to_a.join}#{LAST_LINE}")
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil # the parent no longer waits
    rescue StandardError => e
      report(e)
    ensure
      socket.close
    end

    def report(error) = @bus.publish("error.occurred", error: error, source: "metrics")
  end
end
