# frozen_string_literal: true

require "json"
require "socket"
require "pelton"

# A schema registry whose answers are changed somewhere: in the JSON, in HTTP's own lines, or they end early. A request
# must return a schema or raise a RegistryError, and soon. (Slow and endless answers: test/native/registry_test.rb.)
class RegistryAnswers
  SCHEMA = { type: "record", name: "R", fields: [{ name: "a", type: ["null", "int"] }] }.freeze
  BODIES = [{ schema: JSON.generate(SCHEMA) }, { schema: '"int"', references: [] },
            { schema: '"x.Y"', references: [{ name: "x.Y", subject: "s", version: 1 }] },
            { subject: "s", version: 1, id: 7, schema: '"string"' }, { id: 7 },
            { error_code: 40_403, message: "Schema not found" }].map { |body| JSON.generate(body) }.freeze
  VALUES = ["null", "7", "-1", "1e99", "\"\"", "[]", "{}", "true", "\"\\u0000\"", "\"\\ud800\"", "[[[[]]]]",
            "\"a\\nb\""].freeze
  LIKELY = "{}[]\",:\\0 1\r\n\xff".b.chars.freeze
  STATUSES = ["200 OK", "404 Not Found", "500 Internal", "302 Found", "", "abc", "99999", "200"].freeze
  SECONDS = 20 # that an answer may take, on a machine that is busy

  attr_reader :problems, :inputs, :schemas

  def initialize(seed:, inputs:, from: 0, seconds: nil)
    @seed = seed
    @numbers = (from...from + inputs)
    @seconds = seconds
    @inputs = @schemas = 0
    @problems = []
  end

  def call
    began = now
    @server = TCPServer.new("127.0.0.1", 0)
    serving = Thread.new { serve }
    @numbers.each do |number|
      break if @seconds && now - began > @seconds

      try(number)
    end
    self
  ensure
    @server.close
    serving.join
  end

  def to_s = "#{inputs} answers, #{schemas} of them taken for schemas"

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def serve
    loop do
      socket = @server.accept
      nil until [nil, "\r\n"].include?(socket.gets)
      socket.write(@answer)
      socket.close
    rescue SystemCallError
      socket&.close # the client closed
    end
  rescue IOError
    nil # closed
  end

  def try(number)
    random = Random.new((@seed * 1_000_003) + number)
    @answer = answer(random)
    @inputs += 1
    began = now
    registry = Pelton::Registry.new("http://127.0.0.1:#{@server.addr[1]}", timeout: 2, retries: 0)
    ask(registry, random.rand(3))
    @schemas += 1
    complain(number, "took #{(now - began).round} s") if now - began > SECONDS
  rescue Pelton::RegistryError => e
    complain(number, "an error that is no text") unless e.message.valid_encoding?
  rescue StandardError, SystemStackError => e
    complain(number, e.full_message(highlight: false).lines.first(6).join)
  end

  def ask(registry, what)
    case what
    when 0 then Pelton::Avro::Decoder.new(registry: registry).then { registry.schema(1).text }
    when 1 then registry.latest("s").text
    else registry.version("s", 1).id
    end
  end

  def answer(random)
    body = BODIES[random.rand(BODIES.size)].b
    (1 + random.rand(2)).times { change(body, random) } if random.rand(2).zero?
    status = STATUSES[random.rand(4).zero? ? random.rand(STATUSES.size) : 0]
    length = random.rand(8).zero? ? [0, 1, body.bytesize * 2, -1, 10**20, "x"][random.rand(6)] : body.bytesize
    text = "HTTP/1.1 #{status}\r\nContent-Type: application/json\r\nContent-Length: #{length}\r\n\r\n".b + body
    random.rand(6).zero? ? text[0, random.rand(text.bytesize)] : text
  end

  def change(body, random)
    at = random.rand([body.bytesize, 1].max)
    case random.rand(4)
    when 0 then body[at] = LIKELY[random.rand(LIKELY.size)]
    when 1 then body[at, 1 + random.rand(5)] = ""
    when 2 then body[at, 0] = LIKELY[random.rand(LIKELY.size)] * (1 + random.rand(300))
    else body.sub!(/(?<=:)("(?:[^"\\]|\\.)*"|\d+|\[[^\]]*\])/n) { VALUES[random.rand(VALUES.size)] }
    end
  end

  def complain(number, what)
    @problems << "registry: input #{number}: #{what}\nanswer: #{@answer.inspect[0, 600]}"
  end
end
