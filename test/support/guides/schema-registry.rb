# frozen_string_literal: true

# How the blocks of docs/guides/schema-registry.md are run: see test/support/guides.rb.
price = '{ "type": "record", "name": "shop.Price", "fields": [{ "name": "cents", "type": "long" }] }'
using = '{ "type": "record", "name": "Order", "fields": [{ "name": "total", "type": "shop.Price" }] }'
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
  },
  "references: [price]" => {
    before: lambda do
      File.write("schemas/shop.Price-value.avsc", price)
      File.write("schemas/orders-value.avsc", using)
    end,
    after: lambda do
      registry = RegistryDouble.new
      client = Pelton::Registry.new(registry.url)
      client.register("shop.Price-value", Pelton::Registry::Schema.new(price))
      order = TOPLEVEL_BINDING.local_variable_get(:order)
      assert_equal 2, client.register("orders-value", order)
      assert_equal order.canonical, Pelton::Registry.new(registry.url).latest("orders-value").canonical
      registry.close
    end
  }
}
