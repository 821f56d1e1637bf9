# frozen_string_literal: true

require "test_helper"
require "pelton"
require "support/registry_double"
require "support/certificates"
require "support/forked_child"
require "pty"
require "tmpdir"

# The registry's client against a registry that answers, refuses, hangs and goes away.
class NativeRegistryTest < Minitest::Test
  include ForkedChild
  include RegistryDoubles

  INT = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"int"}]}'
  LONG = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"long"}]}'
  # No wait, one round.
  QUICK = { retries: 0, backoff: 0..0, timeout: 20, open_timeout: 20 }.freeze

  def client(*urls, **options) = Pelton::Registry.new(*urls, **QUICK, **options)

  def test_schema_is_requested_once
    double = new_double
    id = double.add("r-value", INT)
    registry = client(double.url)
    schemas = Array.new(8) { Thread.new { registry.schema(id) } }.map(&:value)
    assert_equal 1, schemas.uniq(&:object_id).size
    assert_equal ["GET /schemas/ids/#{id}"], double.requests
    assert_equal ["shop.R", id, INT], [schemas[0].name, schemas[0].id, schemas[0].text]
  end

  def test_subjects_and_versions
    double = new_double
    ids = [double.add("a b/c", INT), double.add("a b/c", LONG)]
    registry = client(double.url, ttl: 0)
    assert_equal ids[1], registry.latest("a b/c").id
    assert_equal ids[0], registry.version("a b/c", 1).id
    double.add("a b/c", '"string"')
    assert_equal 3, registry.latest("a b/c").version, "a latest version is not for ever"
    patient = client(double.url)
    assert_equal 3, patient.latest("a b/c").version
    double.add("a b/c", '"bytes"')
    assert_equal 3, patient.latest("a b/c").version, "but for a while"
  end

  def test_missing_schema_is_not_requested_again
    double = new_double
    registry = client(double.url)
    errors = Array.new(3) { assert_raises(Pelton::RegistryError) { registry.schema(7) } }
    assert errors.all?(&:missing?)
    assert_equal [404, 40_403], [errors[0].status, errors[0].code]
    assert_equal 1, double.requests.size
    impatient = client(double.url, missing_ttl: 0)
    2.times { assert_raises(Pelton::RegistryError) { impatient.schema(7) } }
    assert_equal 3, double.requests.size
  end

  def test_references
    double = new_double
    double.add("line", '{"type":"record","name":"shop.Line","fields":[{"name":"p","type":"shop.Price"}]}',
               references: [{ name: "shop.Price", subject: "price", version: 1 }])
    double.add("price", '{"type":"fixed","name":"shop.Price","size":2}')
    id = double.add("order", '{"type":"record","name":"shop.Order","fields":[{"name":"l","type":"shop.Line"}]}',
                    references: [{ name: "shop.Line", subject: "line", version: 1 }])
    schema = client(double.url).schema(id)
    assert_equal "ab", schema.encode({ l: { p: "ab" } })
    assert_equal 2, schema.references.size
  end

  def test_references_without_end
    double = new_double
    id = 1 + 60
    60.times do |number|
      double.add("s#{number}", JSON.generate(type: "int", number: number),
                 references: [{ name: "x", subject: "s#{number + 1}", version: 1 }])
    end
    double.add("top", LONG, references: [{ name: "x", subject: "s0", version: 1 }])
    error = assert_raises(Pelton::RegistryError) { client(double.url).schema(id) }
    assert_includes error.message, "are nested deeper than 50 levels"
  end

  def test_next_url_is_asked_when_one_does_not_answer
    gone = new_double.tap(&:close)
    failing = [408, 429, 500, 502, 503, 504, :close].map { |how| new_double.tap { |double| double.fail(how) } }
    [gone, *failing].each do |first|
      second = new_double
      id = second.add("r", INT)
      assert_equal id, client(first.url, second.url).schema(id).id
    end
  end

  def test_answer_that_would_be_the_same_from_each_server_is_not_asked_of_the_next
    [400, 401, 501].each do |status|
      first, second = Array.new(2) { new_double }
      first.fail(status)
      error = assert_raises(Pelton::RegistryError) { client(first.url, second.url).schema(second.add("r", INT)) }
      assert_equal status, error.status
      assert_empty second.requests
    end
  end

  def test_url_that_answered_last_is_asked_first
    both = [new_double, new_double]
    ids = [INT, '"long"'].map { |schema| both.map { |double| double.add("r", schema) }.first }
    registry = client(*both.map(&:url))
    both.first.fail(503)
    ids.each { |id| registry.schema(id) }
    assert_equal([1, 2], both.map { |double| double.requests.size })
  end

  def test_registry_that_hangs_ends_at_the_timeout
    in_time([0.2, 2, 20]) do |timeout|
      first, second = Array.new(2) { new_double }
      first.fail(:hang)
      id = second.add("r", INT)
      assert_equal id, client(first.url, second.url, timeout: timeout).schema(id).id
      assert_equal 1, first.requests.size
    end
  end

  # With the next timeout where this process was too slow for one. The last error is the test's.
  def in_time(timeouts, &block)
    block.call(timeouts.first)
  rescue Pelton::RegistryError, Minitest::Assertion
    timeouts.one? ? raise : in_time(timeouts.drop(1), &block)
  end

  # Each line comes in time.
  def test_heads_without_end
    %i[continues headers].each do |fault|
      in_time([0.3, 3, 10]) do |timeout|
        double = new_double
        double.fail(fault)
        asking = Thread.new { client(double.url, timeout: timeout).schema(1) }
        asking.report_on_exception = false
        error = assert_raises(Pelton::RegistryError, fault) { asking.join(20 * Guard::PATIENCE) || asking.kill }
        assert_includes error.message, "the answer takes too long"
      end
    end
  end

  def test_more_rounds
    double = new_double
    id = double.add("r", INT)
    double.fail(500, times: 2)
    assert_equal id, client(double.url, retries: 2).schema(id).id
    assert_equal 3, double.requests.size
  end

  def test_permanent_registry_error_is_raised_at_once
    double = new_double
    double.fail(403)
    error = assert_raises(Pelton::RegistryError) { client(double.url, retries: 5).schema(1) }
    assert_equal [403, 40_300, 1], [error.status, error.code, double.requests.size], "status, code, number of requests"
    assert_includes error.message, "schema 1: as asked"
  end

  def test_answers_that_are_none
    double = new_double
    double.fail(:garbage)
    error = assert_raises(Pelton::RegistryError) { client(double.url).schema(1) }
    assert_includes error.message, "not valid JSON"
    id = double.add("r", '{"type":"nonsense"}')
    error = assert_raises(Pelton::RegistryError) { client(double.url).schema(id) }
    assert_match(/\Aschema registry, schema #{id}: .*the type "nonsense" is not defined/, error.message)
  end

  def test_answers_that_are_not_even_http
    { no_http: "wrong status line", no_gzip: "Zlib" }.each do |fault, reason|
      broken = new_double
      whole = new_double
      broken.fail(fault, times: 2)
      error = assert_raises(Pelton::RegistryError, fault) { client(broken.url).schema(1) }
      assert_includes error.message, reason
      assert_equal "shop.R", client(broken.url, whole.url).schema(whole.add("r", INT)).name, "the next one is asked"
    end
  end

  def test_references_that_are_none
    [["x"], { "a" => 1 }, [{ "subject" => "r" }], [{ "subject" => nil, "version" => 1 }],
     [{ "subject" => "r", "version" => "1\r\nX: y" }]].each do |references|
      double = new_double
      id = double.add("r", INT, references: references)
      error = assert_raises(Pelton::RegistryError) { client(double.url).schema(id) }
      assert_includes error.message, "references"
      assert_equal 1, double.requests.size
    end
  end

  def test_a_plus_in_a_password_and_a_token_of_two_lines
    double = new_double
    double.authorization = "Basic #{["me:a+b c"].pack("m0")}"
    id = double.add("r", INT)
    assert_equal id, client(double.url.sub("//", "//me:a+b%20c@")).schema(id).id
    error = assert_raises(Pelton::ConfigError) { client(double.url, token: "hush\n") }
    refute_includes error.message, "hush"
  end

  # So that a thousand messages do not wait one after the other.
  def test_a_failure_is_shared_for_a_moment_and_then_asked_again
    double = new_double
    id = double.add("r", INT)
    double.fail(:close, times: 50)
    registry = client(double.url)
    3.times { assert_raises(Pelton::RegistryError) { registry.schema(id) } }
    assert_operator double.requests.size, :<, 4
    double.heal
    eventually(20, "the registry is asked again") do
      registry.schema(id).id == id
    rescue Pelton::RegistryError
      false
    end
  end

  def test_thread_killed_during_its_request_leaves_it_to_others
    double = new_double
    id = double.add("r", INT)
    double.fail(:hang)
    registry = client(double.url, timeout: 60)
    first = Thread.new { registry.schema(id) }
    eventually(20, "the request") { double.requests.size == 1 }
    second = Thread.new { registry.schema(id) }
    eventually(20, "the second waits") { second.stop? }
    first.kill.join
    assert_equal id, second.value.id
  end

  def test_forked_child_sends_its_own_requests
    double = new_double
    id = double.add("r", INT)
    double.fail(:hang)
    registry = client(double.url, timeout: 60)
    asking = Thread.new { registry.schema(id) }
    eventually(20, "the request") { double.requests.size == 1 }
    assert_equal id.to_s, in_child { registry.schema(id).id }.chomp
  ensure
    asking&.kill&.join
  end

  def test_log_ins
    double = new_double
    id = double.add("r", INT)
    double.authorization = "Basic #{["ann:se:cret"].pack("m0")}"
    assert_equal id, client(double.url, user: "ann", password: "se:cret").schema(id).id
    assert_equal id, client(double.url.sub("//", "//ann:se%3Acret@")).schema(id).id
    double.authorization = "Bearer tok-3"
    assert_equal id, client(double.url, token: "tok-3").schema(id).id
    error = assert_raises(Pelton::RegistryError) { client(double.url, token: "tok-4").schema(id) }
    assert_equal [401, 40_101], [error.status, error.code]
    refute_includes error.message, "tok-4"
  end

  def test_secrets_are_nowhere
    registry = client("http://ann:hush-1@127.0.0.1:1/sub", user: "bob", password: "hush-2")
    error = assert_raises(Pelton::RegistryError) { registry.schema(1) }
    config = assert_raises(Pelton::ConfigError) { Pelton::Registry.new("ann:hush-1@x") }
    both = assert_raises(Pelton::ConfigError) { Pelton::Registry.new("http://x", user: "a", token: "hush-3") }
    texts = [registry.inspect, registry.to_s, error.full_message, config.full_message, both.full_message,
             Pelton::Avro::Decoder.new(registry: registry).inspect]
    texts.each { |text| refute_match(/hush/, text) }
    assert_includes registry.inspect, "http://127.0.0.1:1/sub"
  end

  # What each of them says of a slip elsewhere must not show the password beside it.
  def test_urls_with_passwords_are_in_no_error
    url = "https://billing:hush-1@reg:8081"
    calls = [
      -> { routes { decode :avro, registry: url, schem: "x" } },
      -> { routes { key_deserializer :avro, registry: url, framing: :none } },
      -> { routes { decode :avro, registry: [url] } },
      -> { Pelton::App.new.each("o", decode: { format: :avro, registry: url, schem: 1 }).first },
      -> { Pelton::App.new.each("o", decode: { format: :arvo, registry: url }).first },
      -> { Pelton::Registry.new("https://billing:hush 1@reg") },
      -> { Pelton::Registry.new("https://billing:hush-1%zz@reg") },
      -> { Pelton::Registry.new(url, token: 5, tls: url) },
      -> { Pelton::Avro::Serializer.new(registry: { url: url }) }
    ]
    errors = calls.map { |call| assert_raises(Pelton::ConfigError, &call) }
    errors.each { |error| refute_match(/hush/, "#{error.full_message} #{error.value.inspect}") }
  end

  def test_a_private_key_in_place_of_its_file_is_in_no_error
    %i[key_file cert_file].each do |name|
      ["-----BEGIN PRIVATE KEY-----\nMIIhush", "MIIhush"].each do |key|
        error = assert_raises(Pelton::ConfigError) { Pelton::Registry.new("https://x", tls: { name => key }) }
        refute_match(/hush/, "#{error.full_message} #{error.value.inspect}")
        assert_includes error.message, "tls #{name}: cannot be read, or is not a file"
      end
    end
  end

  def routes(&words) = Pelton::App.new.routes { topic("o", to: "Orders", &words) }

  def test_tls
    key = OpenSSL::PKey::RSA.new(2048)
    cert = Certificates.certificate("127.0.0.1", key: key, hosts: "IP:127.0.0.1")[:cert]
    context = OpenSSL::SSL::SSLContext.new
    context.key = key
    context.cert = cert
    double = new_double(tls: context)
    id = double.add("r", INT)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "ca.pem")
      File.write(path, cert.to_pem)
      assert_equal id, client(double.url, tls: { ca_file: path }).schema(id).id
    end
    assert_equal id, client(double.url, tls: { verify: false }).schema(id).id
    [client(double.url), client(double.url, tls: { verify: true })].each do |verifying|
      assert_match(/certificate verify failed/, assert_raises(Pelton::RegistryError) { verifying.schema(id) }.message)
    end
  end

  # With a terminal, on which OpenSSL would ask for the password and wait.
  def test_an_encrypted_key_without_its_password_is_an_error
    key = OpenSSL::PKey::RSA.new(2048)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "both.pem")
      cert = Certificates.certificate("127.0.0.1", key: key)[:cert]
      File.write(path, cert.to_pem + key.to_pem(OpenSSL::Cipher.new("aes-128-cbc"), "hush"))
      code = <<~RUBY
        require "pelton"
        begin
          Pelton::Registry.new("https://127.0.0.1:1", retries: 0, tls: { cert_file: #{path.dump} }).schema(1)
        rescue Pelton::RegistryError => e
          puts e.message
        end
      RUBY
      shown = in_terminal([RbConfig.ruby, "-I", File.expand_path("../../lib", __dir__), "-e", code])
      assert_match(/does not answer: .*PKey/, shown)
      refute_match(/phrase/i, shown)
    end
  end

  # What a program shows there until its end; a question is answered with a new line.
  def in_terminal(command)
    shown = +""
    PTY.spawn(*command) do |reader, writer, pid|
      writer.puts
      loop { shown << reader.readpartial(4096) }
    rescue Errno::EIO, EOFError
      Process.wait(pid)
    end
    shown
  end

  WRONG = [[[], {}], [["ftp://x"], {}], [["http://"], {}], [["http://x"], { timeout: 0 }],
           [["http://x"], { retries: -1 }], [["http://x"], { backoff: 3 }], [["http://x"], { ttl: -1 }],
           [["http://x"], { backoff: "a".."b" }], [["http://x"], { backoff: -1..0 }], [["http://x"], { backoff: ..2 }],
           [["http://x"], { backoff: 2.. }], [["http://x"], { password: "secret" }],
           [["http://x"], { tls: { ca: "x" } }], [["http://x"], { tls: { ca_file: "/nowhere" } }],
           [["http://x"], { tls: { verify: 1 } }]].freeze

  def test_options_are_checked
    WRONG.each do |urls, options|
      assert_raises(Pelton::ConfigError, [urls, options]) { Pelton::Registry.new(*urls, **options) }
    end
  end

  # In four bytes they would be others.
  def test_numbers_that_are_none
    [2**32, -1, nil, "7"].each do |number|
      registry = Struct.new(:id) { def id_of(*) = id }.new(number)
      serializer = Pelton::Avro::Serializer.new(registry: registry, schema: '"string"')
      error = assert_raises(Pelton::RegistryError) { serializer.serialize("a", topic: "t") }
      assert_includes error.message, "subject t-value"
      assert_includes error.message, "#{number.inspect} is not a schema number"
    end
  end

  def test_decoding_by_the_registry
    double = new_double
    ids = [double.add("r", INT), double.add("r", LONG)]
    decoder = Pelton::Avro::Decoder.new(registry: client(double.url), schema: LONG)
    payloads = ids.map { |id| [0, id].pack("CN") << "\x0e" }
    assert_equal [{ "a" => 7 }] * 4, (payloads * 2).map { |payload| decoder.decode(payload) }
    assert_equal 2, double.requests.size
    error = assert_raises(Pelton::SchemaUnavailable) { decoder.decode([0, 99].pack("CN")) }
    assert_predicate error.cause, :missing?
    assert_raises(Pelton::DecodeError) { decoder.decode("{}") }
  end

  def test_decoding_with_a_refused_login_names_the_status
    double = new_double
    id = double.add("r", INT)
    double.authorization = "Bearer tok-3"
    decoder = Pelton::Avro::Decoder.new(registry: client(double.url, token: "tok-4"))
    error = assert_raises(Pelton::SchemaUnavailable) { decoder.decode([0, id].pack("CN") << "\x0e") }
    assert_equal [false, 401], [error.missing?, error.cause.status]
    assert_includes error.message, "(HTTP 401, 40101)"
  end

  # Pelton.each and subscriptions take what routes take.
  def test_a_format_outside_of_routes
    made = Pelton::Formats.with({ "a" => { format: :avro, schema: INT }, "b" => nil, "c" => :json }, {})
    assert_instance_of Pelton::Avro::Decoder, made["a"][:decoder]
    assert_equal [nil, :json], made.values_at("b", "c")
    assert_equal made, Pelton::Formats.with(made, {})
  end
end
