# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"

# What stands in a block of routes beside its words.
class RoutingWordsTest < Minitest::Test
  class Orders < Pelton::Consumer; end

  class Processing < Pelton::Consumer
    def process(_message) = nil
  end

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

  def refused(&routes) = assert_raises(Pelton::ConfigError) { Pelton::App.new.routes(&routes) }.message

  # They were ArgumentErrors: "unknown keyword: :too".
  def test_option_that_a_word_does_not_have_gets_a_suggestion
    { -> { topic "a", too: Orders } => "too: unknown option of topic a, did you mean to?",
      -> { topic "a", consumer: Orders } => "consumer: unknown option of topic a, known are to",
      -> { group("a", kafk: {}) { nil } } => "kafk: unknown option of group a, did you mean kafka?" }
      .each { |routes, text| assert_equal text, refused(&routes) }
    { -> { throttle 5, evry: 6 } => "evry: unknown topic a: throttle option, did you mean every?",
      -> { concurrency 5, bye: :key } => "bye: unknown topic a: concurrency option, did you mean by?",
      -> { retry_in 5, drian: [6] } => "drian: unknown topic a: retry_in option, did you mean drain?",
      -> { retries 5, than: :skip } => "than: unknown topic a: retries option, did you mean then?",
      -> { dead_letters "x", retrys: 1 } => "retrys: unknown topic a: dead_letters option, did you mean retries?",
      -> { on_failure ->(_) { :skip }, dead_leters: [] } =>
        "dead_leters: unknown topic a: on_failure option, did you mean dead_letters?",
      -> { deserializer Orders.method(:new), paralel: :thread } =>
        "paralel: unknown topic a: deserializer option, did you mean parallel?" }
      .each { |block, text| assert_equal(text, refused { topic("a", to: Orders, &block) }) }
  end

  def test_word_of_the_block_that_is_given_as_an_option_is_explained
    assert_equal("retries: unknown option of topic a: write it in the block, { retries … }",
                 refused { topic "a", to: Orders, retries: 5 })
  end

  def test_topic_itself_is_none_of_the_topics_that_on_failure_may_name
    found = refused { topic("a", to: Orders) { on_failure ->(_) { :retry }, dead_letters: %w[odd a] } }
    assert_equal "topic a: dead_letters = \"a\": is the topic itself", found
  end

  # `defaults` set a limit, and no route could take it away; dead letters by hand brought 3 retries.
  def test_retries_without_a_limit_in_spite_of_defaults_and_dead_letters
    app = Pelton::App.new.configure { |config| config.group_id = "g" }
    app.routes do
      defaults { retries 5 }
      topic("a", to: Processing) { retries :unlimited }
      topic("b", to: Processing) { dead_letters "b.dead", retries: :unlimited }
      topic("c", to: Processing) { retries 2**70 }
    end
    assert_equal [nil, nil, 2**70], app.routes.groups(app.config).first.topics.values.map(&:retries)
  end

  def test_retry_topics_that_no_message_would_reach_are_refused
    assert_equal "topic a: retries = :unlimited: cannot be combined with retry_in",
                 refused { topic("a", to: Orders) { [retries(:unlimited), retry_in(60)] } }
  end

  def test_throttle_without_its_time_is_explained
    assert_includes refused { topic("a", to: Orders) { throttle 5 } }, "`throttle 100, every: 60`"
  end
end
