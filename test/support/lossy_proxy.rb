# frozen_string_literal: true

require "socket"

# Stands between a client and a broker, and can lose or hold the broker's answers of some kinds. The broker's own port
# in an answer becomes the proxy's, so the client stays with it.
class LossyProxy
  # Kafka's API keys
  LEAVE_GROUP = 13
  INIT_PRODUCER_ID = 22
  ADD_OFFSETS_TO_TXN = 25
  END_TXN = 26
  TXN_OFFSET_COMMIT = 28
  CONSUMER_GROUP_HEARTBEAT = 68

  attr_reader :port
  # Answers to requests with this API key are lost; nil: none.
  attr_accessor :loses
  # Number of answers that were lost.
  attr_reader :lost
  # {API key => number of requests}
  attr_reader :requests

  def initialize(broker_port)
    @broker_port = broker_port
    @lost = 0
    @requests = Hash.new(0)
    # Answers to requests with these API keys wait, and those behind them in the connection. Guarded by @lock.
    @holds = []
    @lock = Mutex.new
    @released = ConditionVariable.new
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @ports = [broker_port, @port].map { |number| [number].pack("N") }
    @threads = [Thread.new { accept }]
  end

  def hold(*api_keys) = @lock.synchronize { @holds = api_keys }

  def release
    @lock.synchronize do
      @holds = []
      @released.broadcast
    end
  end

  def close
    @server.close
    @threads.each(&:kill).each(&:join)
  end

  private

  def accept
    loop do
      client = @server.accept
      broker = reach_broker or next client.close
      keys = {} # {correlation id => API key} of requests without an answer
      @threads << Thread.new { pass(client, broker) { |request| note(request, keys) } }
      @threads << Thread.new { pass(broker, client) { |answer| answered(answer, keys) } }
    end
  rescue IOError
    nil # closed
  end

  def reach_broker
    TCPSocket.new("127.0.0.1", @broker_port)
  rescue SystemCallError
    nil # it is away
  end

  # The block returns what becomes of a frame; nil: it is lost.
  def pass(from, to)
    while (size = from.read(4)&.unpack1("N")) && (frame = from.read(size))
      frame = yield(frame) or next
      to.write([frame.bytesize].pack("N"), frame)
    end
  rescue SystemCallError, IOError
    nil # one of them closed
  ensure
    from.close
    to.close
  end

  def note(request, keys)
    key, _version, id = request.unpack("nnN")
    keys[id] = key
    @lock.synchronize { @requests[key] += 1 }
    request
  end

  def answered(answer, keys)
    key = keys.delete(answer.unpack1("N"))
    @lock.synchronize { @released.wait(@lock) while @holds.include?(key) }
    return answer.gsub(*@ports) unless key && key == loses

    @lost += 1
    nil
  end
end
