# frozen_string_literal: true

require "json"
require "socket"

# Sends a liveness endpoint the bytes that a probe sends.
module Probe
  Answer = Struct.new(:status, :head, :body) do
    def json = JSON.parse(body, symbolize_names: true)
  end

  module_function

  # path: or a whole request. Raises what the socket raises.
  def probe(port, path = "/live", method: "GET")
    text = path.start_with?("/") ? "#{method} #{path} HTTP/1.1\r\nHost: pod\r\nUser-Agent: kube-probe\r\n\r\n" : path
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write(text)
      answer_of(socket.read)
    end
  end

  def answer_of(text)
    head, body = text.split("\r\n\r\n", 2)
    line, *rows = head.split("\r\n")
    Answer.new(Integer(line[%r{\AHTTP/1\.1 (\d{3}) \S}, 1]), rows.to_h { |row| row.split(": ", 2) }, body)
  end

  # true: no process listens there.
  def refused?(port)
    TCPSocket.open("127.0.0.1", port).close
    false
  rescue Errno::ECONNREFUSED
    true
  end
end
