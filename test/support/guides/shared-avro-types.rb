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
registry = lambda do
  instance_exec(&files)
  @registry = RegistryDouble.new
  client = Pelton::Registry.new(@registry.url)
  client.register("shop.Address-value", Pelton::Registry::Schema.new(address))
  client.register("orders-value", registered)
end
create = Guides.find("docs/guides/shared-avro-types.md", "def orders_serializer").code[/^def .*?^end$/m]
{
  'puts "orders-value: schema' => {
    before: files,
    after: lambda do
      found = Pelton::Registry.new(@registry.url).latest("orders-value")
      assert_equal [registered.canonical, named], [found.canonical, found.named]
    end
  },
  "def orders_serializer" => {
    before: registry,
    after: lambda do
      Pelton.producer.produce_sync(topic: "orders", payload: { "to" => { "city" => "Rome" } })
      assert_equal "\0\0\0\0\2\x08Rome".b, read("orders", 1).first.raw_payload
    end
  },
  # The registry is away, and comes back.
  "orders ||= orders_serializer" => {
    given: { "orders_serializer" => create, "orders" => "" },
    before: lambda do
      instance_exec(&registry)
      define("REGISTRY = Pelton::Registry.new(#{@registry.url.inspect}, retries: 0)")
      @registry.fail(503)
      @asked = @registry.requests.size
    end,
    after: lambda do
      send = -> { Pelton.producer.produce_sync(topic: "orders", payload: { "to" => { "city" => "Rome" } }) }
      Pelton.producer.produce_sync(topic: "clicks", payload: "click")
      assert_equal @asked, @registry.requests.size, "not for other topics"
      assert_equal 503, assert_raises(Pelton::RegistryError, &send).status
      gate = Thread::Queue.new
      threads = Array.new(5) do
        Thread.new do
          gate.pop
          eventually(20) do
            send.call
          rescue Pelton::RegistryError
            false # until the failure is forgotten
          end
        end
      end
      gate.close
      threads.each(&:join)
      assert_equal ["\0\0\0\0\2\x08Rome".b] * 5, read("orders", 5).map(&:raw_payload)
      assert_equal ["POST /subjects/shop.Address-value"] + # failed
                   ["POST /subjects/shop.Address-value", "GET /subjects/shop.Address-value/versions/1",
                    "POST /subjects/orders-value"], @registry.requests.drop(@asked)
    end
  },
  # The registry refuses to compare orders, as Apicurio does, and the address is not compatible.
  "checked = {" => {
    before: lambda do
      instance_exec(&files)
      @registry = RegistryDouble.new
      @registry.add("shop.Address-value", '"string"')
      @registry.registers = false
      @registry.fail(nil)
      @registry.fail([:says, "invalid"])
      $stderr = StringIO.new
    end,
    raises: SystemExit,
    after: lambda do
      said = $stderr.string
      $stderr = STDERR
      asked = %w[shop.Address-value orders-value].map { |name| "POST /compatibility/subjects/#{name}/versions/latest" }
      assert_equal asked, @registry.requests
      assert_match(/\Ashop.Address-value: not compatible\n.*subject orders-value: .*invalid.*\n\z/, said)
    end
  }
}
