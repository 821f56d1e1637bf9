# frozen_string_literal: true

require "json"
require "socket"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"

module Pelton
  # Answers health checks by HTTP, from the start of a server (or of `pelton outbox`) to the end of its shutdown.
  # config.liveness.port starts it. One thread, "pelton.liveness", serves all connections; a slow one does not hold up
  # the others.
  #   GET /live, /started   200, or 500 if only a restart of the process would help (Server#health_problems)
  #   GET /ready            200, or 500 also while the server is quiet or shuts down
  #   GET /metrics          what config.liveness.metrics returns, a Rack app; only if it is set
  # The body: {"healthy":true,"status":"running","reasons":[]}
  # The parent of `pelton server --processes` answers only /metrics, at config.liveness.parent_port.
  class Liveness
    PATHS = %w[/live /started /ready].freeze
    METRICS = "/metrics"
    # The first line of an HTTP request, and the end of its head.
    LINE = %r{\A(?<method>[A-Z]+) (?<path>/[^\s?]*)(?:\?\S*)? HTTP/1\.[01]\r?\n}
    HEAD_END = /\r?\n\r?\n/
    STATUS = { 200 => "OK", 400 => "Bad Request", 404 => "Not Found", 405 => "Method Not Allowed",
               500 => "Internal Server Error" }.freeze
    # Most connections at a time. A further one closes the oldest.
    CONNECTIONS = 100
    # Most seconds of a connection, and most bytes of its request.
    TIME = 5.0
    REQUEST = 8192
    # Seconds without accepting after an accept failed, for instance because no descriptor is free.
    PAUSE = 0.2
    # Most reasons in a body, so that it fits into the socket's buffer and no write blocks.
    REASONS = 10
    private_constant(*constants(false))

    # rest: what is not sent yet of the answer; nil: all is, or there is none.
    Connection = Struct.new(:request, :ends, :answered, :rest)
    private_constant :Connection

    # For Pelton: the text of a Rack app's body, which has `each`, and perhaps `close`.
    #: (untyped) -> String
    def self.text_of(body)
      parts = []
      body.each { |part| parts << part }
      parts.join
    ensure
      body.close if body.respond_to?(:close)
    end

    # Listens on the port; `start` answers. server: a Server, or the relay of `pelton outbox`, which has its methods
    # `health_problems` and `status`; nil in the parent of several processes, which has no health checks.
    # process: number of this process, added to the port. Raises ConfigError if it cannot listen.
    #: (Config::Liveness, untyped, Notifications, ?Integer, ?metrics: untyped) -> void
    def initialize(settings, server, bus, process = 0, metrics: settings.metrics)
      @server = server
      @bus = bus
      @metrics = metrics
      @paths = [*(PATHS if server), *(METRICS if metrics)].freeze
      @listening = server ? listen(settings, :port, process) : listen(settings, :parent_port)
      # {socket => Connection}, oldest first; used by the thread only.
      @open = {}
      # When it accepts connections again, in monotonic seconds.
      @resumes = 0
      # The result of the last check; the event app.unhealthy is for its changes.
      @healthy = true
      @thread = nil
    end

    # Starts to answer.
    #   liveness.start
    #: () -> self
    def start
      @thread = Threads.start("pelton.liveness", report: method(:report)) { serve }
      self
    end

    # The port that it listens on; with port 0, the one that the system chose. From any thread.
    #   Pelton.server.liveness.port # => 9292
    #: () -> Integer
    def port = @listening.local_address.ip_port

    # Stops to listen. From any thread, any number of times. In a forked child it closes the copies of the parent's
    # sockets.
    #   liveness.close
    #: () -> void
    def close
      Threads.join([@thread.kill], TIME) if @thread
      [@listening, *@open.keys].each(&:close)
    end

    def inspect = "#<#{self.class} #{@listening.closed? ? "closed" : "port #{port}"}>"

    private

    def listen(settings, name, process = 0)
      port = settings.public_send(name)
      port += process unless port.zero?
      TCPServer.new(settings.bind, port)
    rescue SocketError, SystemCallError => e
      address = "#{settings.bind}:#{port}"
      raise ConfigError.new("liveness.#{name}", address, "cannot listen on this address: #{e.message}")
    end

    # --- the thread ------------------------------------------------------------------------------------------------

    # Runs until the thread is killed.
    def serve
      loop do
        waited_for = Clock.now < @resumes ? @open.keys : [@listening, *@open.keys]
        unsent = @open.select { |_, connection| connection.rest }.keys
        readable, writable = IO.select(waited_for, unsent, nil, wait)
        readable&.each { |socket| socket.equal?(@listening) ? accept : read(socket) }
        writable&.each { |socket| write(socket) }
        drop(@open.first[0]) while @open.any? && @open.first[1].ends <= Clock.now
      end
    ensure
      [@listening, *@open.keys].each(&:close)
    end

    # Seconds to wait; nil: until a connection comes.
    def wait = Clock.left([*@open.first&.last&.ends, *(@resumes if @resumes > Clock.now)].min)

    def accept
      socket = @listening.accept_nonblock(exception: false)
      return if socket == :wait_readable

      drop(@open.first[0]) if @open.size >= CONNECTIONS
      @open[socket] = Connection.new(String.new, Clock.now + TIME, false)
    rescue SystemCallError
      @resumes = Clock.now + PAUSE
    end

    # After the answer it reads on until the end, because a close with unread bytes would discard the answer.
    def read(socket)
      connection = @open[socket] or return
      part = socket.read_nonblock(REQUEST, exception: false)
      return if part == :wait_readable || (part && connection.answered)
      return drop(socket) if part.nil? && (connection.answered || connection.request.empty?)

      connection.request << part if part
      answer(socket, connection) if part.nil? || complete?(connection.request)
    rescue SystemCallError, IOError
      drop(socket)
    rescue StandardError => e
      drop(socket)
      report(e)
    end

    def complete?(request) = request.bytesize > REQUEST || request.match?(HEAD_END)

    def answer(socket, connection)
      connection.answered = true
      connection.rest = response(connection.request)
      write(socket)
    end

    # Sends what the socket takes. The rest follows when it takes more.
    def write(socket)
      connection = @open[socket] or return
      sent = socket.write_nonblock(connection.rest, exception: false)
      return if sent == :wait_writable
      return connection.rest = connection.rest.byteslice(sent..) if sent < connection.rest.bytesize

      connection.rest = nil
      socket.close_write
    rescue SystemCallError, IOError
      drop(socket)
    end

    def drop(socket)
      @open.delete(socket)
      socket.close
    end

    # --- HTTP ------------------------------------------------------------------------------------------------------

    def response(request)
      line = LINE.match(request) if request.match?(HEAD_END)
      return http(400, { error: "expected GET #{@paths.join(" or ")}, HTTP/1.1" }) unless line
      return http(404, { error: "unknown path, known are #{@paths.join(", ")}" }) unless @paths.include?(line[:path])
      return http(405, { error: "GET or HEAD" }, "Allow: GET, HEAD\r\n") unless %w[GET HEAD].include?(line[:method])

      return metrics(request, line[:method]) if line[:path] == METRICS

      status, body = look(line[:path])
      http(status, body, head: line[:method] == "HEAD")
    end

    def look(path)
      reasons = @server.health_problems
      publish_health(reasons)
      status = @server.status
      well = reasons.empty? && (path != "/ready" || status == :running)
      [well ? 200 : 500, { healthy: reasons.empty?, status: status, reasons: reasons.first(REASONS) }]
    end

    def metrics(request, method)
      accept = request[/^accept:[ \t]*([^\r\n]*)/i, 1]
      env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => METRICS, "HTTP_ACCEPT" => accept.to_s }
      status, headers, parts = @metrics.call(env)
      type = headers.find { |name, _| name.casecmp?("content-type") }&.last || "text/plain"
      text(status, type, Liveness.text_of(parts), head: method == "HEAD")
    rescue StandardError => e
      report(e)
      http(500, { error: "the metrics raised #{e.class}" })
    end

    def http(status, body, more = nil, head: false)
      text(status, "application/json", "#{JSON.generate(body)}\n", more, head: head)
    end

    def text(status, type, body, more = nil, head: false)
      "HTTP/1.1 #{status} #{STATUS[status]}\r\nDate: #{Time.now.utc.strftime("%a, %d %b %Y %T GMT")}\r\n" \
        "Content-Type: #{type}\r\nContent-Length: #{body.bytesize}\r\nCache-Control: no-store\r\n" \
        "#{more}Connection: close\r\n\r\n#{body unless head}"
    end

    # Once per problem.
    def publish_health(reasons)
      healthy = @healthy
      @healthy = reasons.empty?
      @bus.publish("app.unhealthy", reasons: reasons) if healthy && !@healthy
    end

    def report(error) = @bus.publish("error.occurred", error: error, source: "liveness")
  end
end
