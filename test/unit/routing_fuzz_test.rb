# frozen_string_literal: true

require "test_helper"
require "harness/routing_words"

class RoutingFuzzTest < Minitest::Test
  def test_words_with_any_values_are_taken_or_refused_with_a_config_error
    tried = RoutingWords.new(seed: Integer(ENV.fetch("SEED", Random.new_seed & 0xffff)), inputs: 500).call
    assert_empty tried.problems.first(3)
    assert_operator tried.taken, :<, tried.inputs
  end

  # A hash of it, or its text, would take years.
  def test_a_format_that_is_a_list_with_shared_parts_is_refused_at_once
    %i[decode key_deserializer].each do |word|
      error = assert_raises(Pelton::ConfigError) do
        Pelton::Routing::TopicWords.new("topic t").public_send(word, RoutingWords::WIDE)
      end
      assert_operator error.message.size, :<, 5000
    end
  end
end
