# frozen_string_literal: true

require "json"
require "socket"
require_relative "clock"
require_relative "errors"
require_relative "threads"

module Pelton
  # Tells by HTTP whether a server is well, for Kubernetes and its like, from its start to the end of its stop. One
  # thread "pelton.liveness" for all connections: one that is slow or silent keeps no other waiting.
  #   GET /live, /started   200; 500: only a restart of the process would mend it (Server#health_problems)
  #   GET /ready            200; 500 also while no job is begun: it is quiet, or stops
  # The body: {"healthy":true,"status":"running","reasons":[]}
  class Liveness
    PATHS = %w[/live /started /ready].freeze
    # HTTP's first line, and the end of its head.
    LINE = %r{\A(?<method>[A-Z]+) (?<path>/[^\s?]*)(?:\?\S*)? HTTP/1\.[01]\r?\n}
    HEAD_END = /\r?\n\r?\n/
    STATUS = { 200 => "OK", 400 => "Bad Request", 404 => "Not Found", 405 => "Method Not Allowed",
               500 => "Internal Server Error" }.freeze
    # So many connections at a time: one more, and the oldest goes.
    CONNECTIONS = 100
    # Seconds of a connection, and bytes of its request.
    TIME = 5.0
    REQUEST = 8192
    # Seconds without accepting after it failed: no descriptor is free, say.
    PAUSE = 0.2
    # So few that an answer fits into any socket's buffer: nobody waits for its reader.
    REASONS = 10
    private_constant(*constants(false))

    Connection = Struct.new(:request, :ends, :answered)
    private_constant :Connection

    # Listens; raises ConfigError where it cannot. Nobody is answered before `start`. process: its number, for each has
    # a port of its own.
    #: (Config::Liveness, Server, Notifications, ?Integer) -> void
    def initialize(settings, server, bus, process = 0)
      @server = server
      @bus = bus
      @listening = listen(settings.bind, settings.port.zero? ? 0 : settings.port + process)
      # {socket => Connection}, oldest first. The thread's.
      @open = {}
      # Nothing is accepted before (monotonic seconds).
      @resumes = 0
      # As it was told last.
      @healthy = true
      @thread = nil
    end

    #: () -> self
    def start
      @thread = Threads.start("pelton.liveness", report: method(:report)) { serve }
      self
    end

    # Where it listens; with port 0: what the system chose.
    #: () -> Integer
    def port = @listening.local_address.ip_port

    # From any thread, as often as one likes. In a forked child it lets go of what is its parent's.
    #: () -> void
    def close
      Threads.join([@thread.kill], TIME) if @thread
      @listening.close
    end

    private

    def listen(bind, port)
      TCPServer.new(bind, port)
    rescue SocketError, SystemCallError => e
      raise ConfigError.new("liveness.port", "#{bind}:#{port}", "cannot listen there: #{e.message}")
    end

    # --- the thread ------------------------------------------------------------------------------------------------

    # Ends when it is killed.
    def serve
      loop do
        waited_for = Clock.now < @resumes ? @open.keys : [@listening, *@open.keys]
        readable, = IO.select(waited_for, nil, nil, wait)
        readable&.each { |socket| socket.equal?(@listening) ? accept : read(socket) }
        drop(@open.first[0]) while @open.any? && @open.first[1].ends <= Clock.now
      end
    ensure
      [@listening, *@open.keys].each(&:close)
    end

    # Seconds; nil: until somebody comes.
    def wait = Clock.left([*@open.first&.last&.ends, *(@resumes if @resumes > Clock.now)].min)

    def accept
      socket = @listening.accept_nonblock(exception: false)
      return if socket == :wait_readable

      drop(@open.first[0]) if @open.size >= CONNECTIONS
      @open[socket] = Connection.new(String.new, Clock.now + TIME, false)
    rescue SystemCallError
      @resumes = Clock.now + PAUSE
    end

    # What comes after the answer is read for its end only: a close with something unread would take the answer back.
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
      socket.write_nonblock(response(connection.request), exception: false)
      socket.close_write
    end

    def drop(socket)
      @open.delete(socket)
      socket.close
    end

    # --- HTTP ------------------------------------------------------------------------------------------------------

    def response(request)
      line = LINE.match(request) if request.match?(HEAD_END)
      return http(400, { error: "expected GET #{PATHS.join(" or ")}, HTTP/1.1" }) unless line
      return http(404, { error: "there are #{PATHS.join(", ")}" }) unless PATHS.include?(line[:path])
      return http(405, { error: "GET or HEAD" }, "Allow: GET, HEAD\r\n") unless %w[GET HEAD].include?(line[:method])

      status, body = look(line[:path])
      http(status, body, head: line[:method] == "HEAD")
    end

    def look(path)
      reasons = @server.health_problems
      tell(reasons)
      status = @server.status
      well = reasons.empty? && (path != "/ready" || status == :running)
      [well ? 200 : 500, { healthy: reasons.empty?, status: status, reasons: reasons.first(REASONS) }]
    end

    def http(status, body, more = nil, head: false)
      body = "#{JSON.generate(body)}\n"
      "HTTP/1.1 #{status} #{STATUS.fetch(status)}\r\nDate: #{Time.now.utc.strftime("%a, %d %b %Y %T GMT")}\r\n" \
        "Content-Type: application/json\r\nContent-Length: #{body.bytesize}\r\nCache-Control: no-store\r\n" \
        "#{more}Connection: close\r\n\r\n#{body unless head}"
    end

    # Once per illness.
    def tell(reasons)
      healthy = @healthy
      @healthy = reasons.empty?
      @bus.publish("app.unhealthy", reasons: reasons) if healthy && !@healthy
    end

    def report(error) = @bus.publish("error.occurred", error: error, source: "liveness")
  end
end
