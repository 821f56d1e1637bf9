# frozen_string_literal: true

require "socket"

# A broker that gives wrong answers. All connections have one mode.
#
#   broker = FalseBroker.new("garbage", Random.new(7))
#   broker.port
#   broker.close
class FalseBroker
  ZEROS = ("\0" * 1_000_000).freeze

  # {mode => the block that answers a request with this correlation id}; it returns :end to close the connection.
  MODES = {
    "garbage" => ->(socket, _, random) { socket.write(random.bytes(4096)) },
    "giant" => ->(socket, id, _) { socket.write(int(0x7fffffff), id, "\0" * 100_000) },
    "big100m" => lambda do |socket, id, _|
      socket.write(int(99_000_000), id)
      99.times { socket.write(ZEROS) }
    end,
    "negative" => ->(socket, id, _) { socket.write(int(-5), id) },
    "zero" => ->(socket, _, _) { socket.write(int(0)) },
    "short" => ->(socket, id, _) { socket.write(int(4), id) },
    "truncated" => lambda do |socket, id, _|
      socket.write(int(500), id, "\0" * 20)
      :end
    end,
    "drip" => lambda do |socket, id, _|
      socket.write(int(1000), id)
      990.times do
        socket.write("\0")
        socket.wait_readable(0.3)
      end
    end,
    "nullapis" => ->(socket, id, _) { socket.write(int(12), id, "\0\0\0\0\0\0\0\0") },
    "silent" => ->(_, _, _) {},
    "wrongcorr" => ->(socket, _, _) { socket.write(int(10), "\x7f\xff\xff\xff".b, "\0" * 6) },
    "randbody" => ->(socket, id, random) { frame(socket, id, random.bytes(random.rand(200))) },
    "hugearray" => ->(socket, id, _) { frame(socket, id, "\0\0#{int(0x7ffffff0)}#{"\0" * 20}") },
    "http" => ->(socket, _, _) { socket.write("HTTP/1.1 400 Bad Request\r\n\r\n") },
    "tls" => ->(socket, _, _) { socket.write("\x15\x03\x01\x00\x02\x02\x28".b) },
    "close" => ->(_, _, _) { :end },
    "rst" => lambda do |socket, _, _|
      socket.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
      :end
    end
  }.freeze

  def self.int(number) = [number].pack("l>")
  def self.frame(socket, id, body) = socket.write(int(4 + body.bytesize), id, body)

  # A request or answer without its length, or nil.
  def self.read(socket)
    length = socket.read(4)
    return unless length&.bytesize == 4

    length = length.unpack1("l>")
    body = socket.read(length)
    body if body&.bytesize == length
  end

  attr_reader :port
  # Number of wrong answers.
  attr_reader :answers

  def initialize(mode, random)
    @answer = MODES.fetch(mode)
    @random = random
    @answers = 0
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @open = []
    @thread = Thread.new { accept }
  end

  def close
    @server.close
    @thread.join
    @open.each(&:kill).each(&:join)
  end

  private

  def accept
    loop { @open << Thread.new(@server.accept) { |socket| serve(socket) } }
  rescue IOError
    nil # closed
  end

  def serve(socket)
    while (request = self.class.read(socket))
      @answers += 1
      break if self.class.instance_exec(socket, request[4, 4], @random, &@answer) == :end
    end
  rescue SystemCallError, IOError
    nil # the client closed
  ensure
    socket.close
  end
end
