# frozen_string_literal: true

require "test_helper"
require "pelton"
require "support/registry_double"

# Schemas that several processes register, and those that the registry refuses.
class NativeRegistryRegisterTest < Minitest::Test
  include RegistryDoubles

  INT, LONG = %w[int long].map { |type| %({"type":"record","name":"R","fields":[{"name":"a","type":"#{type}"}]}) }

  def client(double) = Pelton::Registry.new(double.url, retries: 0, timeout: 10 * Guard::PATIENCE)

  # Apicurio refuses it to all processes but one, as if it was incompatible.
  def test_schema_that_another_process_registers_at_the_same_time
    double = new_double
    id = double.add("r-value", INT)
    double.fail(409)
    assert_equal id, client(double).register("r-value", Pelton::Registry::Schema.new(INT))
    assert_equal ["POST /subjects/r-value/versions", "POST /subjects/r-value"], double.requests
  end

  def test_incompatible_schema_is_refused_with_the_registry_s_own_reason
    double = new_double
    double.add("r-value", INT)
    double.registers = false
    error = assert_raises(Pelton::RegistryError) do
      client(double).register("r-value", Pelton::Registry::Schema.new(LONG))
    end
    assert_equal [409, 409, nil], [error.status, error.code, error.cause]
    assert_includes error.message, "Schema being registered is incompatible (HTTP 409, 409)"
  end
end
