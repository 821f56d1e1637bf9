# frozen_string_literal: true

# How the blocks of docs/guides/testing-with-a-cluster.md are run: see test/support/guides.rb. Its tests pass.
passes = lambda do |name|
  Object.const_get(name).runnable_methods.each do |test|
    result = Minitest.run_one_method(Object.const_get(name), test)
    assert_predicate result, :passed?, result.failures.join
  end
end
{ "class PaymentsConsumerTest" => { after: -> { instance_exec("PaymentsConsumerTest", &passes) } } }
