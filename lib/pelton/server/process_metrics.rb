# frozen_string_literal: true

require "io/wait"
require "socket"
require_relative "../errors"
require_relative "liveness"
require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "process_series"

module Pelton
  # The metrics of all children of `pelton server --processes`, which their parent shows at config.liveness.parent_port.
  # The parent opens a socket for each child before it forks. At each request it connects to all of them, and each child
  # answers with its pid and its metrics: in the OpenMetrics format, which can be made into the text format, if the app
  # knows it. A restarted child has the socket of the one before.
  class ProcessMetrics
    LOCAL = "127.0.0.1"
    # Seconds for the answers of all children, and for a child to send its own. Less than a connection to the parent may
    # take.
    TIME = 3
    # Seconds without accepting after an accept failed, for instance because no descriptor is free.
    PAUSE = 0.2
    # An answer without it is not complete.
    LAST_LINE = "# EOF\n"
    OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    # What an OpenMetrics answer and a request for one have in their head.
    OPEN_TYPE = "application/openmetrics-text"
    # Of the metrics' Rack app.
    ENV = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/metrics",
            "HTTP_ACCEPT" => "#{OPEN_TYPE};version=1.0.0,text/plain;q=0.5" }.freeze
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
      # Connections to the children during `call`; nil: no connection. A child that is forked meanwhile has copies.
      @asked = []
    end

    # In the parent: answers at its port.
    #: () -> self
    def start = tap { @liveness.start }

    # In a child: answers its parent, on a thread that lives as long as the process.
    #: (Integer) -> Thread
    def serve(number)
      @liveness.close
      socket = @sockets.delete_at(number)
      [*@sockets, *@asked.compact].each(&:close)
      Threads.start("pelton.metrics", report: method(:report)) { loop { accept(socket) } }
    end

    # For Liveness, which serves it as it does a Rack app. In OpenMetrics if the request accepts that and all children
    # answer in it.
    #: (Hash[String, untyped]) -> [Integer, Hash[String, String], Array[String]]
    def call(env)
      deadline = Clock.deadline(TIME)
      @asked = []
      @sockets.each { |socket| @asked << connect(socket.local_address.ip_port, deadline) }
      texts = read(@asked.compact, deadline)
      @asked.zip(@series) { |socket, series| take(series, texts[socket]) }
      open = env["HTTP_ACCEPT"].to_s.include?(OPEN_TYPE) && @series.all?(&:open?)
      [200, { "content-type" => open ? OPEN : PLAIN }, [ProcessSeries.text(@series, open: open)]]
    ensure
      @asked.compact.each(&:close)
    end

    private

    def connect(port, deadline)
      Socket.tcp(LOCAL, port, connect_timeout: Clock.left(deadline))
    rescue SystemCallError
      nil # too many requests wait for a child that hangs
    end

    # {socket => what it sent}. From all at once, so a child that hangs takes no time from the others.
    def read(sockets, deadline)
      texts = sockets.to_h { |socket| [socket, String.new] }
      until sockets.empty?
        ready, = IO.select(sockets, nil, nil, Clock.left(deadline))
        break unless ready

        sockets -= ready.reject { |socket| more?(socket, texts[socket]) }
      end
      texts
    end

    # Appends a part to the text. false: that was the end.
    def more?(socket, text)
      part = socket.read_nonblock(SIZE, exception: false)
      text << part if part.is_a?(String)
      !part.nil?
    rescue SystemCallError
      false # the child ended
    end

    # Gives the series what its child sent, or nothing if that is not complete.
    def take(series, text)
      return series.take unless text&.end_with?(LAST_LINE)

      head, metrics = text.force_encoding(Encoding::UTF_8).split("\n", 2)
      pid, type = head.split(" ", 2)
      series.take(Integer(pid), metrics, open: type.to_s.include?(OPEN_TYPE))
    end

    # --- in a child ------------------------------------------------------------------------------------------------

    def accept(listening)
      answer(listening.accept)
    rescue SystemCallError
      Clock.wait(PAUSE)
    end

    def answer(socket)
      _, headers, parts = @metrics.call(ENV)
      type = headers.find { |name, _| name.casecmp?("content-type") }&.last
      send_text(socket, "#{Process.pid} #{type}\n#{Liveness.text_of(parts)}#{LAST_LINE}", Clock.deadline(TIME))
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil # the parent no longer waits
    rescue StandardError => e
      report(e)
    ensure
      socket.close
    end

    # Gives up at the deadline, because a reader that stopped would hold up all later ones.
    def send_text(socket, text, deadline)
      until text.empty?
        sent = socket.write_nonblock(text, exception: false)
        next text = text.byteslice(sent..) unless sent == :wait_writable
        return unless socket.wait_writable(Clock.left(deadline))
      end
    end

    def report(error) = @bus.publish("error.occurred", error: error, source: "metrics")
  end
end
