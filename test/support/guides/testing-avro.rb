# frozen_string_literal: true

# How the blocks of docs/guides/testing-avro.md are run: see test/support/guides.rb.
order = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }'
{
  "registry.compatible?" => {
    before: lambda do
      File.write("schemas/orders-value.avsc", order)
      FileUtils.mkdir_p("schemas/readers")
      File.write("schemas/readers/orders.avsc", order)
    end,
    after: -> { assert_equal ["POST /compatibility/subjects/orders-value/versions/latest"], @registry.requests }
  },
  "registry.latest" => {
    before: lambda do
      FileUtils.mkdir_p("schemas/readers")
      File.write("schemas/readers/orders.avsc", order.sub("Order", "billing.Order"))
    end,
    after: -> { assert_equal ["GET /subjects/orders-value/versions/latest"], @registry.requests }
  }
}
