# frozen_string_literal: true

# How the blocks of docs/guides/registry-outages.md are run: see test/support/guides.rb.
order = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }'
{
  "on_failure lambda" => {
    after: lambda do
      topic = Pelton.routes.groups(Pelton.config).first.topics.fetch("orders")
      assert_equal ["orders.dead", nil], [topic.dead_letters, topic.retries]
      decided = lambda do |*errors|
        message = Object.new
        errors.map { |error| topic.on_failure.call(Pelton::Consuming::Failure.new(error, message, 100, nil)) }
      end
      down = Pelton::RegistryError.new("schema 7", "down")
      missing = Pelton::RegistryError.new("schema 7", "Schema not found", status: 404, code: 40_403)
      reading = lambda do |cause|
        raise cause
      rescue Pelton::RegistryError
        Pelton::SchemaUnavailable.new("orders", 0, 0, "no schema").tap { |error| raise error }
      end
      away, lost = [down, missing].map { |cause| assert_raises(Pelton::SchemaUnavailable) { reading.call(cause) } }
      assert_equal [:retry] * 20, decided.call(*[down, away] * 10)
      assert_equal [[:dead_letter]] * 2, [lost, Pelton::DecodeError.new].map { |error| decided.call(error) }
      [missing, IOError.new].each do |other|
        answers = decided.call(away, other, down, other, away, away, other, other)
        assert_equal [*[:retry] * 7, :dead_letter], answers, "the fourth other failure"
      end
    end
  },
  "REGISTRY.id_of" => {
    after: lambda do
      payload = Object.const_get(:ORDERS).serialize({ "id" => 7, "kind" => "PAID" }, topic: "orders")
      assert_equal "\0\0\0\0\1\x0e\0".b, payload # schema 1, then 7 and the first symbol
      assert_equal ["POST /subjects/orders-value"], @registry.requests, "at boot only"
    end
  },
  "class OutageTest" => {
    given: { "producer" => "" }, # a method there, no variable
    before: lambda do
      FileUtils.mkdir_p("spec/schemas")
      File.write("spec/schemas/98.avsc", order)
    end,
    after: lambda do
      result = Minitest.run_one_method(OutageTest, "test_orders_wait_for_the_registry")
      assert_predicate result, :passed?, result.failures.join
      assert_equal [Pelton::SchemaUnavailable], @errors.map(&:class).uniq # on purpose
      @errors.clear
    end
  }
}
