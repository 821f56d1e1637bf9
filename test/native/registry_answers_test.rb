# frozen_string_literal: true

require "test_helper"
require "harness/registry_answers"

class RegistryAnswersTest < Minitest::Test
  def test_changed_answers_are_schemas_or_registry_errors
    tried = RegistryAnswers.new(seed: Integer(ENV.fetch("SEED", Random.new_seed & 0xffff)), inputs: 300).call
    assert_empty tried.problems.first(3)
    assert_includes 1...300, tried.schemas
  end
end
