# frozen_string_literal: true

require "test_helper"
require "support/registry_contract"
require "support/schema_registry"

# The contract of schema registries (test/support/registry_contract.rb) on a real one, so that our double is no kinder.
class RealRegistryTest < Minitest::Test
  include RegistryContract

  REGISTRY = TestRegistry.start
  Minitest.after_run { REGISTRY.stop }

  def url = REGISTRY.url
  def refuse(subject, _text) = REGISTRY.mode(subject, "BACKWARD")

  def test_guid_is_not_supported_yet
    error = assert_raises(Pelton::RegistryError) { client.guid("00000000-0000-0000-0000-000000000007") }
    assert_equal [404, false], [error.status, error.missing?]
  end
end
