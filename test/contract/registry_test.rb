# frozen_string_literal: true

require_relative "../test_helper"
require "support/registry_contract"
require "support/registry_double"

# The contract of schema registries on our double. test/integration/schema_registry.rb runs it on a real one.
module RegistryDoubleContract
  include RegistryContract
  include RegistryDoubles

  def double = @double ||= new_double(path: "/apis/ccompat/v7")
  def url = double.url
  def refuse(_subject, text) = double.registers = ->(schema) { schema != text }
end

class RegistryDoubleTest < Minitest::Test
  include RegistryDoubleContract
end

# Most proxies pack answers.
class PackedRegistryDoubleTest < Minitest::Test
  include RegistryDoubleContract

  def setup
    super
    double.gzip = true
  end

  def test_answers_are_packed
    answer = Net::HTTP.get_response(URI("#{url}/schemas/ids/1"), { "Accept-Encoding" => "gzip" })
    assert_equal ["gzip", "\x1f\x8b".b], [answer["Content-Encoding"], answer.body.b[0, 2]]
  end
end
