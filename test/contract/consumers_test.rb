# frozen_string_literal: true

require_relative "../test_helper"
require "support/consumer_worlds"

# The contract of consumers on the harness of pelton/testing and on the embedded cluster. test/integration/consumers.rb
# runs it on a real Kafka.
class HarnessConsumersTest < Minitest::Test
  include ConsumerContract
  include ConsumerWorlds::Harness
end

class EmbeddedConsumersTest < Minitest::Test
  include ConsumerContract
  include ConsumerWorlds::Embedded
end
