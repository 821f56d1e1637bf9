# frozen_string_literal: true

require "socket"

# A few requests of Kafka's protocol in pure Ruby: enough to ask a broker whether it serves and to make topics.
# Independent of the code under test on purpose.
class KafkaWire
  class Failure < StandardError; end

  LIST_OFFSETS = 2
  METADATA = 3
  FIND_COORDINATOR = 10
  CREATE_TOPICS = 19
  DELETE_TOPICS = 20
  CREATE_PARTITIONS = 37
  CHANGE_TIMEOUT = 50_000 # milliseconds that the broker has for one
  COORDINATORS = { group: 0, transaction: 1 }.freeze

  # Asks once. Raises SystemCallError or Failure if no correct answer comes in time.
  #: (String, Integer, timeout: Numeric) { (KafkaWire) -> untyped } -> untyped
  def self.open(host, port, timeout: 5)
    socket = Socket.tcp(host, port, connect_timeout: timeout)
    yield new(socket, timeout)
  ensure
    socket&.close
  end

  def initialize(socket, timeout)
    @socket = socket
    @deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + timeout
  end

  # The live brokers of the cluster: [[id, host, port], …].
  #: () -> Array[[Integer, String, Integer]]
  def brokers
    reply = Reader.new(request(METADATA, 4, int32(0) + int8(0)))
    reply.int32 # throttle time
    Array.new(reply.int32) do
      broker = [reply.int32, reply.string, reply.int32]
      reply.string # rack
      broker
    end
  end

  # Creates topics {"orders" => 3 partitions}, one replica each; an existing topic is fine.
  #: (Hash[String, Integer], Hash[String, String]) -> void
  def create_topics(topics, settings)
    body = int32(topics.size) + topics.map { |name, partitions| topic(name, partitions, settings) }.join
    succeed(request(CREATE_TOPICS, 4, body + int32(CHANGE_TIMEOUT) + int8(0)), ignored: [36]) # exists already
  end

  # Sets a topic's number of partitions.
  #: (String, Integer) -> void
  def create_partitions(topic, count)
    body = int32(1) + string(topic) + int32(count) + int32(-1) # placed where the broker likes
    succeed(request(CREATE_PARTITIONS, 1, body + int32(CHANGE_TIMEOUT) + int8(0)))
  end

  #: (String) -> void
  def delete_topic(name)
    succeed(request(DELETE_TOPICS, 3, int32(1) + string(name) + int32(CHANGE_TIMEOUT)), reasons: false)
  end

  # The offset that each partition's next message gets; nil: the broker does not lead the partition (yet).
  #: (String, Integer) -> Array[Integer?]
  def ends(topic, partitions)
    asked = Array.new(partitions) { |number| int32(number) + int64(-1) }.join # -1: the end
    body = int32(-1) + int32(1) + string(topic) + int32(partitions) + asked # the first -1: of a client
    reply = Reader.new(request(LIST_OFFSETS, 1, body))
    reply.int32 # one topic
    reply.string
    Array.new(reply.int32) do
      partition = reply.int32
      error = reply.int16
      reply.int64 # a time
      offset = reply.int64
      [partition, (offset if error.zero?)]
    end.sort.map(&:last)
  end

  # Is there a coordinator for groups or transactions? Asking makes the broker create its internal topic.
  #: (Symbol) -> bool
  def coordinator?(kind)
    reply = Reader.new(request(FIND_COORDINATOR, 1, string("pelton-test") + int8(COORDINATORS.fetch(kind))))
    reply.int32 # throttle time
    reply.int16.zero?
  end

  private

  # The rows of an answer: topic, error code, often a reason.
  def succeed(answer, ignored: [], reasons: true)
    reply = Reader.new(answer)
    reply.int32 # throttle time
    reply.int32.times do
      name = reply.string
      code = reply.int16
      reason = reply.string if reasons
      raise Failure, "topic #{name}: error #{code} #{reason}" unless [0, *ignored].include?(code)
    end
  end

  def topic(name, partitions, settings)
    string(name) + int32(partitions) + int16(1) + int32(0) + int32(settings.size) +
      settings.map { |key, value| string(key.to_s) + string(value.to_s) }.join
  end

  def request(api, version, body)
    message = int16(api) + int16(version) + int32(1) + string("pelton-test") + body
    @socket.write(int32(message.bytesize) + message)
    size = read(4).unpack1("N")
    read(size).byteslice(4..) # without the correlation id
  end

  def read(size)
    data = +"".b
    while data.bytesize < size
      left = @deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      raise Failure, "no answer in time" if left <= 0 || !@socket.wait_readable(left)

      data << @socket.readpartial(size - data.bytesize)
    end
    data
  rescue EOFError
    raise Failure, "connection closed"
  end

  def int8(value) = [value].pack("c")
  def int16(value) = [value].pack("s>")
  def int32(value) = [value].pack("l>")
  def int64(value) = [value].pack("q>")
  def string(value) = int16(value.bytesize) + value.b

  # Reads the fields of an answer one after the other.
  class Reader
    def initialize(bytes)
      @bytes = bytes
      @at = 0
    end

    def int16 = take(2).unpack1("s>")
    def int32 = take(4).unpack1("l>")
    def int64 = take(8).unpack1("q>")

    def string
      size = int16
      size.negative? ? nil : take(size).force_encoding(Encoding::UTF_8)
    end

    private

    def take(size)
      @at += size
      @bytes.byteslice(@at - size, size) || raise(Failure, "answer too short")
    end
  end
end
