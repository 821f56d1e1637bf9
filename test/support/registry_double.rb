# frozen_string_literal: true

require "json"
require "openssl"
require "socket"
require "uri"
require "zlib"

# A schema registry on a port of this machine, as far as clients see one: subjects with versions, ids, references. It
# passes the contract of a real one (registry_contract.rb). Two texts of a schema that differ in spaces are two schemas,
# as with Apicurio.
#
# A fault for the next requests: a status, :hang (no answer), :close (none, and the end), :garbage, :no_http, :no_gzip;
# :echo, :echo_schema and :echo_status repeat the request in an error, a schema, the status line;
# [:says, "text"] is an error with that message; { status: 302, headers: { "Location" => "/x" }, body: "…" } is that
# answer; :continues and :headers are lines without end.
#   registry = RegistryDouble.new
#   id = registry.add("orders-value", '"string"')
#   registry.fail(503, times: 2)
#   registry.requests # => ["GET /schemas/ids/1"]
class RegistryDouble
  ENDLESS = { continues: ["", "HTTP/1.1 100 Continue\r\n\r\n"], headers: ["HTTP/1.1 200 OK\r\n", "X: y\r\n"] }.freeze
  MOST_NUMBER = (2**31) - 1
  private_constant :ENDLESS, :MOST_NUMBER

  # The header that every request must have; nil: none.
  attr_accessor :authorization
  # May clients register schemas? Otherwise new ones are incompatible. true, false, or a lambda that gets the schema.
  attr_accessor :registers
  # true: packs the answers for clients that ask for it.
  attr_accessor :gzip

  # path: where its API begins, as in "/apis/ccompat/v7".
  def initialize(tls: nil, path: "")
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @tls = tls
    @path = path
    @lock = Mutex.new
    @subjects = Hash.new { |all, name| all[name] = [] }
    @schemas = []
    @faults = []
    @requests = []
    @open = []
    @registers = true
    @thread = Thread.new { serve }
  end

  def url = "#{@tls ? "https" : "http"}://127.0.0.1:#{@port}#{@path}"
  def requests = @lock.synchronize { @requests.dup }

  # Number 7's GUID.
  def guid(id) = format("00000000-0000-0000-0000-%012x", id)

  # The id, which a schema keeps in all subjects.
  def add(subject, schema, references: [])
    @lock.synchronize do
      entry = { schema: schema, references: references }
      id = (@schemas.index(entry) || ((@schemas << entry).size - 1)) + 1
      @subjects[subject] << id unless @subjects[subject].include?(id)
      id
    end
  end

  def fail(fault, times: 1) = @lock.synchronize { @faults.concat([fault] * times) }
  def heal = @lock.synchronize { @faults.clear }

  def close
    @server.close
    @lock.synchronize { @open.each(&:close) }
    @thread.join(10)
  end

  private

  def serve
    loop do
      socket = @server.accept
      @lock.synchronize { @open << socket }
      Thread.new { answer(socket) }
    end
  rescue IOError, SystemCallError
    nil # closed
  end

  def answer(socket)
    stream = @tls ? OpenSSL::SSL::SSLSocket.new(socket, @tls).tap { |secure| secure.sync_close = true }.accept : socket
    line, headers = head(stream)
    body = stream.read(headers["content-length"].to_i)
    fault = @lock.synchronize do
      @requests << line
      @faults.shift
    end
    return if fault == :hang # the socket is closed with the registry

    start, again = ENDLESS[fault]
    stream.write(start) if start
    stream.write(again) while again
    stream.write(reply(fault, line, headers, body))
    stream.close
  rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
    socket.close
  end

  def head(stream)
    line = stream.gets.to_s.split[0, 2].join(" ")
    headers = {}
    while (header = stream.gets&.chomp) && !header.empty?
      name, value = header.split(": ", 2)
      headers[name.downcase] = value
    end
    [line, headers]
  end

  def reply(fault, line, headers, body)
    case fault
    when :close then ""
    when :echo then http(400, JSON.generate(error_code: { "a" => line }, message: echo(line, headers, body)))
    when :echo_schema then http(200, JSON.generate(schema: JSON.generate(type: echo(line, headers, body))))
    when :echo_status then "#{echo(line, headers, body)}\r\n\r\n"
    when Hash then http(fault[:status], fault.fetch(:body, ""), fault.fetch(:headers, {}))
    when Array then http(400, JSON.generate(error_code: 1, message: fault.last)) # [:says, "any text"]
    when :garbage then http(200, "<html>")
    when :no_http then "\x15\x03\x01 none\r\n"
    when :no_gzip then "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"
    when Integer then http(fault, JSON.generate(error_code: fault * 100, message: "as asked"))
    else packed(headers, *route(line, headers, body))
    end
  end

  def packed(headers, status, text)
    return http(status, text) unless gzip && headers["accept-encoding"].to_s.include?("gzip")

    http(status, Zlib.gzip(text), { "Content-Encoding" => "gzip" })
  end

  def echo(line, headers, body) = "#{line}\r\n#{headers.map { |pair| pair.join(": ") }.join("\r\n")}\r\n#{body}\e[31m"

  def http(status, text, headers = {})
    lines = { **headers, "Content-Length" => text.bytesize, "Connection" => "close" }.map { |pair| pair.join(": ") }
    "HTTP/1.1 #{status} X\r\n#{lines.join("\r\n")}\r\n\r\n".b << text.b
  end

  def route(line, headers, body)
    return error(401, 40_101, "Unauthorized") if authorization && headers["authorization"] != authorization

    verb, path = line.split(" #{@path}/", 2)
    @lock.synchronize { found("#{verb} /#{path}", body) }
  end

  def found(line, body)
    case line
    when %r{\AGET /schemas/ids/(\d+)\z} then schema($1.to_i)
    when %r{\AGET /schemas/guids/00000000-0000-0000-0000-0*(\h+)\z} then schema($1.hex)
    when %r{\AGET /subjects/([^/]+)/versions/([\w-]+)\z} then version(unescape($1), $2)
    when %r{\APOST /compatibility/subjects/([^/]+)/versions/latest\z} then compatible(unescape($1), entry(body))
    when %r{\APOST /subjects/([^/]+)(/versions)?\z} then register(unescape($1), !$2.nil?, entry(body))
    else no_place
    end
  end

  def no_place = error(404, 404, "HTTP 404 Not Found")

  # In a path, "+" is no space.
  def unescape(text) = URI.decode_www_form_component(text.gsub("+", "%2B"))

  # The parameter is an int of Java, in Confluent's registry as in Apicurio: for a larger number they have no place.
  def schema(id)
    return no_place if id > MOST_NUMBER

    entry = @schemas[id - 1] if id.positive?
    entry ? [200, JSON.generate(entry.reject { |_, value| value.empty? })] : error(404, 40_403, "Schema not found")
  end

  def version(subject, number)
    ids = @subjects.fetch(subject) { return error(404, 40_401, "Subject not found") }
    number = number.sub(/\A(latest|-1)\z/, ids.size.to_s).to_i
    return error(422, 42_202, "Invalid version") unless number.positive?

    id = ids[number - 1] or return error(404, 40_402, "Version not found")
    [200, JSON.generate(subject: subject, version: number, id: id, **@schemas[id - 1])]
  end

  # The schema of a request.
  def entry(body)
    body = JSON.parse(body)
    type = body["schemaType"]
    { schema: body["schema"], references: body.fetch("references", []),
      **(type.nil? || type == "AVRO" ? {} : { schemaType: type }) }
  end

  def register(subject, new, entry)
    index = @schemas.index(entry)
    number = index && @subjects.key?(subject) && @subjects[subject].index(index + 1)
    return [200, JSON.generate(id: index + 1, subject: subject, version: number + 1, **entry)] if number
    return no_schema(subject) unless new
    return error(422, 42_201, "Invalid schema") unless valid?(entry)
    return error(409, 409, "Schema being registered is incompatible") unless fits?(entry)

    index ||= (@schemas << entry).size - 1
    @subjects[subject] << (index + 1)
    [200, JSON.generate(id: index + 1)]
  end

  def no_schema(subject)
    @subjects.key?(subject) ? error(404, 40_403, "Schema not found") : error(404, 40_401, "Subject not found")
  end

  # As Karapace and Redpanda answer for a new subject. Confluent's and Apicurio answer that it takes any schema.
  def compatible(subject, entry)
    return error(404, 40_401, "Subject not found") unless @subjects.key?(subject)
    return error(422, 42_201, "Invalid schema") unless valid?(entry)

    known = @schemas[@subjects[subject].last - 1][:schema] == entry[:schema]
    [200, JSON.generate(is_compatible: known || fits?(entry))]
  end

  def fits?(entry) = @registers.respond_to?(:call) ? @registers.call(entry[:schema]) : @registers

  # Is it a schema, with all types that it uses? Others than Avro's are not checked.
  def valid?(entry)
    return true if entry[:schemaType]

    Pelton::Registry::Schema.new(entry[:schema], references: texts(entry[:references]))
    true
  rescue Pelton::ConfigError
    false
  end

  # Of the schemas that these refer to, and of these.
  def texts(references)
    references.flat_map do |reference|
      id = @subjects.fetch(reference["subject"], [])[reference["version"] - 1] or next []
      [*texts(JSON.parse(JSON.generate(@schemas[id - 1][:references]))), @schemas[id - 1][:schema]]
    end
  end

  def error(status, code, message) = [status, JSON.generate(error_code: code, message: message)]
end

# For test classes: registries that are closed at the end of each test.
module RegistryDoubles
  def setup
    super
    @doubles = []
  end

  def teardown
    @doubles.each(&:close)
    super
  end

  def new_double(**options) = RegistryDouble.new(**options).tap { |made| @doubles << made }
end
