# frozen_string_literal: true

# How the blocks of docs/guides/shared-avro-types.md are run: see test/support/guides.rb.
address = '{ "type": "record", "name": "shop.Address", "fields": [{ "name": "city", "type": "string" }] }'
order = '{ "type": "record", "name": "shop.Order", "fields": [{ "name": "to", "type": "shop.Address" }] }'
files = lambda do
  File.write("schemas/shop.Address-value.avsc", address)
  File.write("schemas/orders-value.avsc", order)
end
named = [{ "name" => "shop.Address", "subject" => "shop.Address-value", "version" => 1 }]
registered = Pelton::Registry::Schema.new(order, references: [address], named: named)
{
  'puts "orders-value: schema' => {
    before: files,
    after: lambda do
      found = Pelton::Registry.new(@registry.url).latest("orders-value")
      assert_equal [registered.canonical, named], [found.canonical, found.named]
    end
  },
  "Pelton.middleware.append" => {
    before: lambda do
      instance_exec(&files)
      @registry = RegistryDouble.new
      client = Pelton::Registry.new(@registry.url)
      client.register("shop.Address-value", Pelton::Registry::Schema.new(address))
      client.register("orders-value", registered)
    end,
    after: lambda do
      Pelton.producer.produce_sync(topic: "orders", payload: { "to" => { "city" => "Rome" } })
      assert_equal "\0\0\0\0\2\x08Rome".b, read("orders", 1).first.raw_payload
    end
  },
  "checked = {" => {
    before: files,
    after: lambda do
      asked = %w[shop.Address-value orders-value].map { |name| "POST /compatibility/subjects/#{name}/versions/latest" }
      assert_equal asked, @registry.requests
    end
  }
}
