# frozen_string_literal: true

require "test_helper"
require "json"
require "stringio"
require "uri"
require "zlib"
require "pelton"
require "pelton/registry"
require "support/registry_double"

# Answers that a registry, or a proxy in front of it, may give in place of a schema. Each is an error that names the
# request, the status and the URL, and no login.
class NativeRegistryFaultsTest < Minitest::Test
  include RegistryDoubles

  HUSH = "hush-secret+1/2"
  INT = '"int"'
  BINARY = Array.new(256, &:chr).join.b.freeze

  def client(double, **options)
    Pelton::Registry.new(with_login(double.url), retries: 0, timeout: 10 * Guard::PATIENCE, **options)
  end

  def with_login(url) = url.sub("//", "//me:#{URI.encode_www_form_component(HUSH)}@")

  # Returns the error of a look-up that gets this answer.
  def failure(answer, double = new_double)
    double.fail(answer)
    error = assert_raises(Pelton::RegistryError) { client(double).schema(7) }
    told = [error.full_message(highlight: false), error.inspect].map(&:b).join
    refute_match(/hush|#{["me:#{HUSH}"].pack("m0")}/, told)
    assert_match(/\Aschema registry, schema 7: /, error.message)
    assert_includes error.message, double.url
    assert_operator error.message.size, :<, 700
    error
  end

  def test_redirects_are_followed_nowhere_so_no_other_host_gets_the_login
    other = new_double
    other.add("r", INT)
    double = new_double
    places = { "#{other.url}/schemas/ids/7?token=#{HUSH}" => "#{other.url}/schemas/ids/7,",
               with_login(other.url) => "#{other.url},",
               "#{double.url}/here" => "#{double.url}/here,", "/login?user=me" => "/login,",
               "http://[nonsense" => "redirects, which" }
    [301, 302, 303, 307, 308].product(places.to_a).each do |status, (location, shown)|
      error = failure({ status: status, headers: { "Location" => location }, body: "<html>moved</html>" }, double)
      assert_includes error.message, shown
      assert_match(/not followed: use the URL.* \(HTTP #{status}\), from /, error.message)
      assert_equal [status, double.url, false], [error.status, error.url, error.missing?]
    end
    assert_empty other.requests
    assert_equal 25, double.requests.size
  end

  def test_status_without_a_body_that_says_anything
    [401, 403, 404, 500].product(["", "<html>", "{", "null", "[1]", BINARY, "\xff"]).each do |status, body|
      error = failure({ status: status, body: body })
      assert_match(/schema 7: refused \(HTTP #{status}\), from /, error.message, body.inspect)
      assert_equal [status, nil, false], [error.status, error.code, error.missing?]
    end
  end

  # A proxy's page for a wrong URL made dead letters of good messages.
  def test_only_a_registry_s_own_answer_says_that_a_schema_is_missing
    missing = ->(status, code) { failure({ status: status, body: JSON.generate(error_code: code) }).missing? }
    assert_equal [true] * 3, ([40_401, 40_402, 40_403].map { |code| missing.call(404, code) })
    assert_equal [false] * 4, [[404, 404], [404, 40_400], [404, "40403"], [422, 40_403]].map { |answer|
                                missing.call(*answer)
                              }
  end

  # Java's ints end there. Registries answer 404 as for a wrong URL, and the message blocked its partition.
  def test_schema_number_that_no_registry_can_have_is_missing
    double = new_double
    errors = [2**31, (2**32) - 1].map { |id| assert_raises(Pelton::RegistryError) { client(double).schema(id) } }
    assert_equal [[404, 40_403, true]] * 2, (errors.map { |error| [error.status, error.code, error.missing?] })
    assert_includes errors[0].message, "schema 2147483648: no registry has a number above 2147483647"
    assert_empty double.requests
  end

  def test_reasons_of_a_registry_that_repeat_the_login_are_shown_without_it
    double = new_double
    said = ["no #{HUSH}", { "Authorization" => "Basic #{["me:#{HUSH}"].pack("m0")}" }, [HUSH] * 3, "\e[31m#{HUSH}\r\n"]
    [401, 403, 404, 500].product(said).each do |status, message|
      error = failure({ status: status, body: JSON.generate(error_code: 7, message: message) }, double)
      assert_match(/\[hidden\].* \(HTTP #{status}, 7\), from /, error.message)
      refute_match(/[\e\r\n]/, error.message)
    end
    assert_includes failure({ status: 500, body: "{\"message\":\"a\xff\"}" }).message, "a\\xFF (HTTP 500)"
  end

  # A DecodeError shows 200 characters of its reason.
  def test_long_reason_of_a_registry_leaves_status_and_url_in_the_error_of_a_message
    double = new_double
    double.fail({ status: 403, body: JSON.generate(error_code: 9, message: "no " * 5000) })
    decoder = Pelton::Avro::Decoder.new(registry: client(double))
    error = assert_raises(Pelton::SchemaUnavailable) { decoder.decode([0, 7].pack("CN") << "\x02") }
    assert_match(/ cannot be decoded: schema registry, schema 7: no no .*… \(HTTP 403, 9\), from #{double.url}\z/,
                 error.message)
    assert_operator error.message.size, :<, 700
  end

  # Looking for logins in 15 MB took 6 s, in which no other thread ran.
  def test_text_of_a_huge_refusal_is_not_searched_for_logins
    error = failure({ status: 500, body: JSON.generate(message: "#{HUSH} x" * 5000) })
    assert_match(/schema 7: refused with \d+ bytes \(HTTP 500\), from /, error.message)
    assert_includes failure({ status: 500, body: JSON.generate(message: "x" * 60_000) }).message, "xxxx"
  end

  def test_answers_without_a_schema
    packed = StringIO.new.tap { |io| Zlib::GzipWriter.wrap(io) { |gzip| 20.times { gzip.write("\0" * 1_000_000) } } }
    { { status: 200, body: "null" } => "its answer is not a JSON object (HTTP 200), from ",
      { status: 200, body: "[1]" } => "its answer is not a JSON object (HTTP 200), from ",
      { status: 200, body: BINARY } => "its answer is not valid JSON (HTTP 200), from ",
      { status: 200, body: "[" * 100_000 } => "its answer is not valid JSON (HTTP 200), from ",
      { status: 200, body: "{}" } => "its answer has no schema, from ",
      { status: 200, body: '{"schema":"{}","schemaType":"JSON"}' } => "is JSON, not AVRO, from ",
      { status: 200, body: "x" * (17 << 20) } => "more than 16777216 bytes",
      { status: 200, body: packed.string, headers: { "Content-Encoding" => "gzip" } } => "more than 16777216 bytes" }
      .each { |answer, reason| assert_includes failure(answer).message, reason }
  end

  # Each call waited for all timeouts of the request, again and again.
  def test_latest_schema_stays_in_use_while_the_registry_hangs
    double = new_double
    id = double.add("r-value", INT)
    registry = client(double, ttl: 0)
    assert_equal id, registry.latest("r-value").id
    double.fail(:hang)
    2.times { assert_equal id, registry.latest("r-value").id }
    renewal = Pelton::Threads.list.find { |thread| thread.name == "pelton.registry" }
    assert renewal&.alive?, "the request goes on"
    double.close
    assert renewal.join(10 * Guard::PATIENCE)
    assert_equal id, registry.latest("r-value").id
  end

  def test_timeouts_name_the_url
    double = new_double
    double.fail(:hang)
    error = assert_raises(Pelton::RegistryError) { client(double, timeout: 0.2).schema(7) }
    assert_match(/\Aschema registry, schema 7: #{double.url} does not answer: /, error.message)
    refute_includes error.message, "hush"
  end

  # It was asked for 51 times, and was then called too deep.
  def test_references_that_lead_back_to_themselves_end_at_once
    double = new_double
    double.add("a", INT, references: [{ name: "b", subject: "b", version: 1 }])
    double.add("b", '"long"', references: [{ name: "a", subject: "a", version: 1 }])
    double.add("self", '"string"', references: [{ name: "self", subject: "self", version: 1 }])
    error = assert_raises(Pelton::RegistryError) { client(double).schema(1) }
    assert_includes error.message, "references of schema 1: lead from b version 1 back to itself, from #{double.url}"
    assert_equal 3, double.requests.size
    error = assert_raises(Pelton::RegistryError) { client(double).latest("self") }
    assert_includes error.message, "references of subject self version latest: lead from self version 1 back to itself"
  end

  def test_schema_that_two_others_refer_to_leads_nowhere_back
    double = new_double
    double.add("money", '{"type":"fixed","name":"M","size":2}')
    both = %w[A B].map do |name|
      double.add(name, %({"type":"record","name":"#{name}","fields":[{"name":"m","type":"M"}]}),
                 references: [{ name: "M", subject: "money", version: 1 }])
      { name: name, subject: name, version: 1 }
    end
    id = double.add("top", '{"type":"record","name":"T","fields":[{"name":"a","type":"A"},{"name":"b","type":"B"}]}',
                    references: both)
    assert_equal 3, client(double).schema(id).references.size
  end

  def test_missing_reference_names_the_schema_that_refers_to_it
    double = new_double
    id = double.add("order", INT, references: [{ name: "x", subject: "price", version: 3 }])
    error = assert_raises(Pelton::RegistryError) { client(double).schema(id) }
    assert_equal "schema registry, reference price version 3 of schema #{id}: Subject not found (HTTP 404, 40401), " \
                 "from #{double.url}", error.message
  end

  def test_reference_whose_subject_repeats_the_login_is_shown_without_it
    double = new_double
    double.add(HUSH, INT, references: [{ name: "x", subject: HUSH, version: 1 }])
    ids = [1, double.add("top", '"long"', references: [{ name: "x", subject: HUSH, version: 9 }])]
    ids.each do |id|
      error = assert_raises(Pelton::RegistryError) { client(double).schema(id) }
      assert_match(/\[hidden\] version \d/, error.message)
      refute_includes error.full_message, "hush"
    end
  end
end
