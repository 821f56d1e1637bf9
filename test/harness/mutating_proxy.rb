# frozen_string_literal: true

require "socket"
require_relative "false_broker"

# Stands between clients and a broker and changes some bytes of some answers. The broker's own port in an answer becomes
# the proxy's, so clients stay with it.
class MutatingProxy
  # At most this many first answers of a connection stay unchanged, so that later requests occur, too.
  SPARED = [0, 1, 2, 4, 8, 16].freeze
  LIKELY = ["\0", "\xff", "\x7f", "\x80", "\x01", "\xff\xff", "\xff\xff\xff\xff", "\x7f\xff\xff\xff"].map(&:b).freeze

  attr_reader :port
  # Number of changed answers.
  attr_reader :answers

  def initialize(broker_port, random)
    @broker_port = broker_port
    @random = random
    @answers = 0
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @ports = [broker_port, @port].map { |number| FalseBroker.int(number) }
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
    loop do
      client = @server.accept
      broker = TCPSocket.new("127.0.0.1", @broker_port)
      spared = SPARED[@random.rand(SPARED.size)]
      @open << Thread.new { pass(client, broker) }
      @open << Thread.new { pass(broker, client) { |body| change(body, spared -= 1) } }
    end
  rescue IOError
    nil # closed
  end

  def pass(from, to)
    while (body = FalseBroker.read(from))
      body = yield body if block_given?
      to.write(FalseBroker.int(body.bytesize), body)
    end
  rescue SystemCallError, IOError
    nil # one of them closed
  ensure
    from.close
    to.close
  end

  def change(body, spared)
    body = body.gsub(@ports.first) { @ports.last }
    return body if spared >= 0 || @random.rand(3).zero? || body.bytesize < 5

    @answers += 1
    (1 + @random.rand(3)).times { mutate(body) }
    body
  end

  # Behind the correlation id.
  def mutate(body)
    at = 4 + @random.rand([body.bytesize - 4, 1].max)
    case @random.rand(5)
    when 0 then body.setbyte(at, @random.rand(256)) if at < body.bytesize
    when 1 then body[at, 0] = LIKELY[@random.rand(LIKELY.size)]
    when 2 then body[at, 1 + @random.rand(4)] = ""
    when 3 then body[at..] = ""
    else
      likely = LIKELY[@random.rand(LIKELY.size)]
      body[at, likely.bytesize] = likely if at + likely.bytesize <= body.bytesize
    end
  end
end
