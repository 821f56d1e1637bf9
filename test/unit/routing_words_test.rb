# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"

# What stands in a block of routes beside its words.
class RoutingWordsTest < Minitest::Test
  class Orders < Pelton::Consumer; end

  def test_a_block_answers_to_its_words_and_to_nothing_else
    seen = {}
    Pelton::App.new.routes do
      seen[:routes] = [respond_to?(:topic), respond_to?(:topik), respond_to?(:to_ary)]
      topic("orders", to: Orders) do
        seen[:topic] = [respond_to?(:retries), respond_to?(:retires), respond_to?(:to_ary)]
      end
    end
    assert_equal({ routes: [true, false, false], topic: [true, false, false] }, seen)
  end
end
