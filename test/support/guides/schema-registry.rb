# frozen_string_literal: true

# How the blocks of docs/guides/schema-registry.md are run: see test/support/guides.rb.
{
  'Dir["schemas/*.avsc"]' => {
    before: lambda do
      File.write("schemas/orders-value.avsc", '{ "type": "record", "name": "Order", "fields": [] }')
    end,
    after: -> { assert_equal ["POST /subjects/orders-value/versions"], @registry.requests }
  },
  "REGISTRY.id_of" => {
    after: lambda do
      payload = Object.const_get(:ORDERS).serialize({ "id" => 7, "kind" => "PAID" }, topic: "orders")
      assert_equal "\0\0\0\0\1\x0e\0".b, payload # schema 1, then 7 and the first symbol
      assert_equal ["POST /subjects/orders-value"], @registry.requests, "at boot only"
    end
  }
}
