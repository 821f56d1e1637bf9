# frozen_string_literal: true

require "io/wait"
require "socket"
require "stringio"
require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../runtime/notifications"
require_relative "../runtime/threads"
require_relative "../version"
require_relative "../web"

module Pelton
  class Web
    # A small HTTP/1.1 server for `pelton web`: one Rack app, a few readers. It closes each connection after its answer.
    # GET /live answers 200 for health checks, to everyone and without asking the app.
    #   server = HttpServer.new(web, bind: "127.0.0.1", port: 9280)
    #   server.wait
    class HttpServer
      LIVE = "/live"
      LIVE_ANSWER = [200, { "content-type" => "text/plain", "cache-control" => "no-store" }.freeze, ["ok\n"]].freeze
      LINE = %r{\A(?<verb>[A-Z]+) (?<path>/[^\s?]*)(?:\?(?<query>\S*))? HTTP/1\.[01]\r?\n}
      HEAD_END = /\r?\n\r?\n/
      REASONS = { 200 => "OK", 303 => "See Other", 400 => "Bad Request", 401 => "Unauthorized", 403 => "Forbidden",
                  404 => "Not Found", 405 => "Method Not Allowed", 411 => "Length Required",
                  413 => "Content Too Large", 431 => "Request Header Fields Too Large",
                  500 => "Internal Server Error", 503 => "Service Unavailable" }.freeze
      # Most connections at a time; further ones wait in the system's queue.
      CONNECTIONS = 16
      # Then one whose request has not arrived within this many seconds is cut off. Browsers open some in advance, and
      # others may be kept open to keep readers out.
      IDLE = 1
      # Seconds in which a request must arrive, and an answer be taken.
      TIME = 10
      HEAD = 16_384
      BODY = 1 << 20
      # What is read of a refused request, so that its sender sees the answer: at most these bytes and seconds.
      REST = 16 << 20
      REST_TIME = 2
      # Seconds without accepting after an accept failed, for instance because no descriptor is free.
      PAUSE = 0.2
      private_constant(*constants(false))

      # Listens. base: the path of the app, such as "/ops/kafka"; a proxy may pass it on or not. Raises ConfigError if
      # it cannot listen.
      #: (untyped, bind: String, port: Integer, bus: Notifications, ?base: String) -> void
      def initialize(app, bind:, port:, bus:, base: "")
        @app = app
        @base = base
        @bus = bus
        @listening = TCPServer.new(bind, port)
        @lock = Mutex.new
        @left = ConditionVariable.new
        # Under @lock. {socket => when it was accepted; nil: its request has arrived}, the oldest first.
        @open = {}.compare_by_identity
        @thread = Threads.start("pelton.web", report: method(:report)) { serve }
      rescue SocketError, SystemCallError => e
        raise ConfigError.new("--bind, --port", "#{bind}:#{port}", "cannot listen on this address: #{e.message}")
      end

      # The port that it listens on.
      #: () -> Integer
      def port = @listening.local_address.ip_port

      # Waits until it is closed.
      #: () -> void
      def wait = Threads.join([@thread])

      # Ends it, and requests that still run. From any thread.
      #: () -> void
      def close
        Threads.join([@thread.kill], TIME)
        @listening.close
      end

      private

      def serve
        answering = {}
        loop do
          socket = accept or next
          enter(socket)
          answering.select! { |thread, _| thread.alive? }
          thread = Threads.start("pelton.web.request", report: method(:report)) { handle(socket) }
          answering[thread] = socket
        end
      ensure
        answering.each_key(&:kill)
        Threads.join(answering.keys, TIME)
      end

      # nil: it failed, and may do so at once again.
      def accept
        @listening.accept
      rescue SystemCallError
        Clock.wait(PAUSE)
      end

      # Waits until fewer than CONNECTIONS are open.
      def enter(socket)
        @lock.synchronize do
          while @open.size >= CONNECTIONS
            cut_off_idle
            @left.wait(@lock, IDLE)
          end
          @open[socket] = Clock.now
        end
      end

      # Under @lock. Its thread then reads the end of the connection.
      def cut_off_idle
        socket, since = @open.find { |_, accepted| accepted }
        socket.shutdown(Socket::SHUT_RD) if since && Clock.now - since >= IDLE
      rescue SystemCallError, IOError
        nil # it is closed already
      end

      def handle(socket)
        env = request(socket, Clock.deadline(TIME))
        @lock.synchronize { @open[socket] = nil }
        return refuse(socket, env) if env.is_a?(Integer)

        answer(socket, *(live?(env) ? LIVE_ANSWER : @app.call(env)))
      rescue SystemCallError, IOError
        nil # the reader left
      ensure
        socket.close
        @lock.synchronize { @open.delete(socket) && @left.signal }
      end

      def live?(env) = env["PATH_INFO"] == LIVE && env["REQUEST_METHOD"] == "GET"

      # A close with unread bytes would reset the connection, and its sender would not see the answer.
      def refuse(socket, status)
        answer(socket, status, { "content-type" => "text/plain" }, ["#{REASONS[status]}\n"])
        socket.close_write
        deadline = Clock.deadline(REST_TIME)
        rest = 0
        rest += part(socket, deadline).bytesize while rest < REST
      end

      def answer(socket, status, headers, body)
        text = body.each.to_a.join
        head = { "connection" => "close", "content-length" => text.bytesize.to_s, **headers }
        lines = head.map { |name, value| "#{name}: #{value}\r\n" }.join
        write(socket, "HTTP/1.1 #{status} #{REASONS.fetch(status, "Status")}\r\n#{lines}\r\n".b + text.b)
      end

      # The Rack environment, or the status of a refusal.
      def request(socket, deadline)
        text = "".b
        text << part(socket, deadline) until text.match?(HEAD_END) || text.bytesize > HEAD
        return 431 unless text.match?(HEAD_END)

        head, rest = text.split(HEAD_END, 2)
        line = LINE.match("#{head}\r\n") or return 400
        headers = headers(head)
        return 411 if headers.key?("HTTP_TRANSFER_ENCODING")

        length = Integer(headers.fetch("CONTENT_LENGTH", "0"), 10, exception: false)
        return 400 if length.nil? || length.negative?
        return 413 if length > BODY

        rest << part(socket, deadline) while rest.bytesize < length
        env(line, headers, rest.byteslice(0, length), socket)
      end

      # Raises EOFError if the reader left or is too slow.
      def part(socket, deadline)
        socket.wait_readable(Clock.left(deadline)) or raise EOFError
        socket.readpartial(HEAD)
      end

      # {"HTTP_HOST" => "localhost", "CONTENT_LENGTH" => "12"}
      def headers(head)
        head.split(/\r?\n/).drop(1).filter_map do |row|
          name, value = row.split(/:[ \t]*/, 2)
          name = name.upcase.tr("-", "_")
          [name.match?(/\ACONTENT_(LENGTH|TYPE)\z/) ? name : "HTTP_#{name}", value.to_s.rstrip]
        end.to_h
      end

      def env(line, headers, body, socket)
        { **headers,
          "REQUEST_METHOD" => line[:verb], "SCRIPT_NAME" => @base, "PATH_INFO" => below_base(line[:path]),
          "QUERY_STRING" => line[:query].to_s, "REMOTE_ADDR" => socket.remote_address.ip_address,
          "SERVER_NAME" => "localhost", "SERVER_PORT" => port.to_s, "SERVER_PROTOCOL" => "HTTP/1.1",
          "rack.url_scheme" => "http", "rack.input" => StringIO.new(body), "rack.errors" => $stderr }
      end

      def below_base(path) = "#{path}/".start_with?("#{@base}/") ? path.delete_prefix(@base) : path

      def write(socket, bytes)
        deadline = Clock.deadline(TIME)
        until bytes.empty?
          written = socket.write_nonblock(bytes, exception: false)
          next bytes = bytes.byteslice(written..) if written.is_a?(Integer)

          socket.wait_writable(Clock.left(deadline)) or return
        end
      end

      def report(error) = @bus.publish("error.occurred", error: error, source: "web")
    end
  end
end
