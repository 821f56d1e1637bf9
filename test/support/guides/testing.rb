# frozen_string_literal: true

# How the blocks of docs/guides/testing.md are run: see test/support/guides.rb. Its tests pass.
passes = lambda do |name|
  Object.const_get(name).runnable_methods.each do |test|
    result = Minitest.run_one_method(Object.const_get(name), test)
    assert_predicate result, :passed?, result.failures.join
  end
end
{
  "class ShipOrderTest" => { after: -> { instance_exec("ShipOrderTest", &passes) } },
  "Registry.files" => {
    before: lambda do
      Dir.mkdir("schemas")
      File.write("schemas/orders-key.8.avsc", '"string"')
      File.write("schemas/orders-value.7.avsc",
                 '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }')
    end
  },
  "RSpec.configure" => { not_run: "needs RSpec" },
  "class PaymentsConsumerTest" => { after: -> { instance_exec("PaymentsConsumerTest", &passes) } }
}
