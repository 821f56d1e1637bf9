# frozen_string_literal: true

require "json"
require "net/http"
require "pelton"

# What Pelton's client may rely on from a schema registry. The same tests run on our double (test/contract) and on a
# real registry (test/integration), so that the double is no kinder. The class that includes this has
#   url                    the registry's address
#   refuse(subject, text)  from now on, the subject does not accept this schema, whose field has another type
module RegistryContract
  TEXTS = %w[int string long].map do |type|
    %({"type":"record","name":"shop.Order","fields":[{"name":"id","type":"#{type}"}]})
  end.freeze
  FIRST, REFUSED, SECOND = TEXTS.map { |text| Pelton::Registry::Schema.new(text) }
  PRICE = '{"type":"fixed","name":"shop.Price","size":2}'
  LINE = '{"type":"record","name":"shop.Line","fields":[{"name":"price","type":"shop.Price"}]}'
  ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"line","type":"shop.Line"}]}'
  # Each of these means something in a URL.
  ODD = "ü a/b+c%20d?e=f&g#h;i:j@k"

  # Without memory of earlier answers.
  def client(*urls, **options)
    urls = [url] if urls.empty?
    Pelton::Registry.new(*urls, retries: 0, ttl: 0, missing_ttl: 0, timeout: 30 * Guard::PATIENCE, **options)
  end

  def subject(word = "orders-value") = "#{word}-#{Process.pid}-#{rand(1_000_000_000)}"

  # [status, code, is it missing?] of the error.
  def refusal(&block)
    error = assert_raises(Pelton::RegistryError, &block)
    assert_includes error.message, ", from #{url.chomp("/")}" if error.url
    [error.status, error.code, error.missing?]
  end

  # The answer to a request that Pelton never sends.
  def post(path, body)
    place = URI("#{url}#{path}")
    answer = Net::HTTP.post(place, JSON.generate(body), "Content-Type" => "application/vnd.schemaregistry.v1+json")
    [answer.code.to_i, JSON.parse(answer.body)]
  end

  def test_schema_is_found_by_number_as_latest_and_as_version
    name = subject
    ids = [FIRST, SECOND].map { |schema| client.register(name, schema) }
    assert_equal 2, ids.uniq.size
    found = [client.schema(ids[1]), client.latest(name), client.version(name, 2)]
    assert_equal [[SECOND.text, ids[1]]] * 3, (found.map { |schema| [schema.text, schema.id] })
    assert_equal [[name, 2]] * 2, (found.drop(1).map { |schema| [schema.subject, schema.version] })
    assert_equal [FIRST.text, ids[0], 1], client.version(name, 1).then { |first| [first.text, first.id, first.version] }
  end

  def test_number_of_a_registered_schema
    name = subject
    ids = [FIRST, SECOND].map { |schema| client.register(name, schema) }
    assert_equal ids, ([FIRST, SECOND].map { |schema| client.id_of(name, schema) })
  end

  def test_schema_that_is_registered_again_keeps_its_number_and_version
    name = subject
    ids = [FIRST, SECOND, FIRST, FIRST].map { |schema| client.register(name, schema) }
    assert_equal [ids[0], ids[1], ids[0], ids[0]], ids
    assert_equal [2, ids[1]], client.latest(name).then { |latest| [latest.version, latest.id] }
  end

  def test_schema_of_two_subjects_has_one_number
    names = [subject, subject("copies-value")]
    ids = names.map { |name| client.register(name, FIRST) }
    assert_equal 1, ids.uniq.size
    assert_equal(names.map { |name| [name, 1, ids[0]] }, names.map do |name|
      client.latest(name).then { |latest| [latest.subject, latest.version, latest.id] }
    end)
    assert_equal FIRST.text, client.schema(ids[0]).text
  end

  def test_missing_subjects_versions_and_numbers_have_confluent_s_codes
    name = subject
    client.register(name, FIRST)
    none = subject("none")
    assert_equal [404, 40_401, true], refusal { client.latest(none) }
    assert_equal [404, 40_401, true], refusal { client.version(none, 1) }
    assert_equal [404, 40_401, true], refusal { client.id_of(none, FIRST) }
    assert_equal [404, 40_402, true], refusal { client.version(name, 2) }
    assert_equal [404, 40_403, true], refusal { client.id_of(name, SECOND) }
    assert_equal [404, 40_403, true], refusal { client.schema(1_000_000) }
    assert_equal [404, 40_403, true], refusal { client.schema(0) }
  end

  # Such a number is in a payload that only begins with byte 0. `on_failure` waits for a schema that may come.
  def test_number_that_no_schema_can_have_is_missing
    assert_equal [404, 40_403, true], refusal { client.schema((2**31) - 1) }
    [2**31, (2**32) - 1].each { |id| assert_equal [404, 40_403, true], refusal { client.schema(id) } }
    decoder = Pelton::Avro::Decoder.new(registry: client)
    error = assert_raises(Pelton::SchemaUnavailable) { decoder.decode("\0\xff\xfe\xfd\xfc text".b) }
    assert_predicate error, :missing?
  end

  def test_version_that_is_none_is_refused
    name = subject
    client.register(name, FIRST)
    assert_includes [[422, 42_202, false], [404, 40_402, true]], (refusal { client.version(name, 0) })
  end

  def test_incompatible_schema_is_refused_and_a_compatible_one_is_not
    name = subject
    id = client.register(name, FIRST)
    refuse(name, REFUSED.text)
    assert_equal [false, true, true], ([REFUSED, FIRST, SECOND].map { |schema| client.compatible?(name, schema) })
    assert_equal [409, false], (refusal { client.register(name, REFUSED) }).values_at(0, 2)
    assert_equal [1, id], client.latest(name).then { |latest| [latest.version, latest.id] }
    client.register(name, SECOND)
    assert_equal 2, client.latest(name).version
  end

  def test_new_subject_is_compatible_with_any_schema
    assert_equal true, client.compatible?(subject, FIRST)
  end

  # Processes that start at the same time: Apicurio tells all but one that the subject exists.
  def test_clients_that_register_at_the_same_time_get_the_same_number
    5.times do
      name = subject
      schema = Pelton::Registry::Schema.new({ type: "record", name: "R#{rand(1_000_000_000)}", fields: [] })
      ids = Array.new(8) { Thread.new { client.register(name, schema) } }.map(&:value)
      assert_equal 1, ids.uniq.size
    end
  end

  def test_references_of_two_levels
    price, line, order = %w[price line order].map { |word| subject(word) }
    named = ->(type, name) { [{ "name" => "shop.#{type}", "subject" => name, "version" => 1 }] }
    client.register(price, Pelton::Registry::Schema.new(PRICE))
    client.register(line, Pelton::Registry::Schema.new(LINE, references: [PRICE], named: named.call("Price", price)))
    schema = Pelton::Registry::Schema.new(ORDER, references: [PRICE, LINE], named: named.call("Line", line))
    assert_equal true, client.compatible?(order, schema)
    id = client.register(order, schema)
    assert_equal [id, id], [client.register(order, schema), client.id_of(order, schema)]
    [client.schema(id), client.latest(order)].each do |found|
      assert_equal [id, [PRICE, LINE], schema.named], [found.id, found.references, found.named]
      assert_equal "ab", found.encode({ "line" => { "price" => "ab" } })
    end
  end

  def test_schema_whose_references_the_registry_lacks_is_refused
    none = [{ "name" => "shop.Price", "subject" => subject("none"), "version" => 1 }]
    [[], none].each do |references|
      status, answer = post("/subjects/#{subject}/versions", { schema: LINE, references: references })
      assert_equal [422, 42_201], [status, answer["error_code"]], references
    end
    # The client asks for them first.
    schemas = [[], none].map { |named| Pelton::Registry::Schema.new(LINE, references: [PRICE], named: named) }
    answers = schemas.map { |schema| refusal { client.register(subject, schema) } }
    assert_equal [[nil, nil, false], [404, 40_401, true]], answers
  end

  def test_text_that_is_no_schema_is_refused
    ["{nonsense", "7", '{"type":"nonsense"}', '{"type":"record","name":"A"}'].each do |text|
      status, answer = post("/subjects/#{subject}/versions", { schema: text })
      assert_equal [422, 42_201], [status, answer["error_code"]], text
    end
  end

  def test_schema_of_another_kind_is_an_error
    name = subject
    text = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'
    status, answer = post("/subjects/#{name}/versions", { schema: text, schemaType: "JSON" })
    assert_equal 200, status
    [-> { client.latest(name) }, -> { client.schema(answer["id"]) }].each do |look_up|
      assert_includes assert_raises(Pelton::RegistryError, &look_up).message, "is JSON, not AVRO"
    end
  end

  def test_subject_with_characters_that_mean_something_in_a_url
    name = subject(ODD)
    id = client.register(name, Pelton::Registry::Schema.new(PRICE))
    found = [client.latest(name), client.version(name, 1)]
    assert_equal([[id, name]] * 2, found.map { |schema| [schema.id, schema.subject] })
    assert_equal id, client.id_of(name, Pelton::Registry::Schema.new(PRICE))
    refuse(name, REFUSED.text)
    assert_equal false, client.compatible?(name, REFUSED)
    named = [{ "name" => "shop.Price", "subject" => name, "version" => 1 }]
    user = subject
    client.register(user, Pelton::Registry::Schema.new(LINE, references: [PRICE], named: named))
    assert_equal [PRICE], client.latest(user).references
  end

  def test_text_of_a_schema_comes_back_as_it_is
    name = subject
    text = %({"type":"record","name":"A","doc":"Größe \\"€\\" \u{1F600} \\u00e9 / \\\\","fields":[]})
    id = client.register(name, Pelton::Registry::Schema.new(text))
    assert_equal [text, text], [client.schema(id).text, client.latest(name).text]
    assert_equal id, client.id_of(name, Pelton::Registry::Schema.new(text))
  end

  def test_schema_without_a_name
    name = subject
    id = client.register(name, Pelton::Registry::Schema.new('"string"'))
    assert_equal ['"string"', nil], client.schema(id).then { |schema| [schema.text, schema.name] }
  end

  def test_url_with_a_slash_at_its_end
    id = client("#{url}/").register(subject, FIRST)
    assert_equal FIRST.text, client("#{url}/").schema(id).text
  end

  def test_url_of_no_registry_says_nothing_about_a_schema
    id = client.register(subject, FIRST)
    error = assert_raises(Pelton::RegistryError) { client("#{url}/nowhere").schema(id) }
    assert_equal [404, false], [error.status, error.missing?]
  end

  def test_next_url_is_asked_when_the_first_does_not_answer
    both = client("http://127.0.0.1:1", url)
    id = both.register(subject, FIRST)
    assert_equal FIRST.text, both.schema(id).text
  end

  def test_written_with_one_client_and_read_with_another
    topic = subject("orders")
    payloads = [FIRST, SECOND].map do |schema|
      Pelton::Avro::Serializer.new(registry: client, schema: schema, register: true)
                              .serialize({ "id" => 7 }, topic: topic)
    end
    decoder = Pelton::Avro::Decoder.new(registry: client, schema: SECOND)
    assert_equal([{ "id" => 7 }] * 2, payloads.map { |payload| decoder.decode(payload) })
    latest = Pelton::Avro::Serializer.new(registry: client).serialize({ "id" => 7 }, topic: topic)
    assert_equal payloads.last, latest
  end
end
