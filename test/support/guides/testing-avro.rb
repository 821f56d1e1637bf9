# frozen_string_literal: true

# How the blocks of docs/guides/testing-avro.md are run: see test/support/guides.rb.
order = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }'
{
  "registry.compatible?" => {
    before: lambda do
      File.write("schemas/orders-value.avsc", order)
    end,
    after: -> { assert_equal ["POST /compatibility/subjects/orders-value/versions/latest"], @registry.requests }
  },
  "registry.latest" => {
    before: -> { File.write("schemas/orders-reader.avsc", order.sub("Order", "billing.Order")) },
    after: -> { assert_equal ["GET /subjects/orders-value/versions/latest"], @registry.requests }
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
