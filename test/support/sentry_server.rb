# frozen_string_literal: true

require "socket"
require "zlib"

# Sentry's server, as far as its gem sees one.
class SentryServer
  def initialize
    @server = TCPServer.new("127.0.0.1", 0)
    @reports = Thread::Queue.new
    @thread = Thread.new { loop { answer(@server.accept) } }
  end

  def dsn = "http://key@127.0.0.1:#{@server.addr[1]}/1"

  # What came since the last call.
  def take = Array.new(@reports.size) { @reports.pop }

  def close
    @thread.kill.join
    @server.close
  end

  private

  # An envelope has three lines: its header, the header of its item, and the item.
  def answer(socket)
    headers = socket.gets("\r\n\r\n").downcase
    body = socket.read(headers[/^content-length: (\d+)/, 1].to_i)
    body = Zlib.gunzip(body) if headers.include?("content-encoding: gzip")
    @reports << body.lines.values_at(1, 2)
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
  ensure
    socket.close
  end
end
