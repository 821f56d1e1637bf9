# frozen_string_literal: true

# How the blocks of docs/guides/testing.md are run: see test/support/guides.rb. Its tests pass.
passes = lambda do |name|
  Object.const_get(name).runnable_methods.each do |test|
    result = Minitest.run_one_method(Object.const_get(name), test)
    assert_predicate result, :passed?, result.failures.join
  end
end
schemas = lambda do
  FileUtils.mkdir_p("spec/schemas")
  File.write("spec/schemas/orders-value.7.avsc",
             '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }')
end
listener = -> { Object.const_set(:ErrorListener, Class.new { def on_error_occurred(event) = event[:error] }) }
consumers_own = { "producer" => "" } # a method there, no variable
{
  "class OrdersConsumerTest" => { given: consumers_own, after: -> { instance_exec("OrdersConsumerTest", &passes) } },
  "class PaymentsTest" => {
    given: consumers_own,
    after: lambda do
      instance_exec("PaymentsTest", &passes)
      assert_equal 4, @errors.grep(IOError).size # on purpose
      @errors.clear
    end
  },
  'it "ships the order"' => { not_run: "needs RSpec; test/native/testing_assertions_test.rb runs one like it" },
  "karafka.consumer_for" => { not_run: "is Karafka's" },
  "produce_together do" => { not_run: "needs RSpec, as the block above" },
  "Events::Event.new" => { before: listener },
  "REGISTRY_URL" => { before: schemas },
  "[0, 99].pack" => { not_run: "is part of a test; test/native/testing_session_test.rb runs it" },
  "Avro::Serializer.new" => { before: schemas }
}
