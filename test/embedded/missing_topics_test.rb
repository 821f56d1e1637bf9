# frozen_string_literal: true

require_relative "../test_helper"
require "support/embedded_app"

# A server that creates its topics, on a cluster in this process. That cluster answers no requests of an admin client.
class MissingTopicsTest < Minitest::Test
  include EmbeddedApp

  def test_a_server_creates_declared_topics_on_the_embedded_cluster
    existing = topic(2)
    reader = collector
    app = app(create_topics: true) do
      topic(existing, to: reader)
      topic("made", to: reader) { creates partitions: 3 }
    end
    app.topics { topic "free", partitions: 5 }
    app.start
    counts = { existing => 2, "made" => 3, "free" => 5 }
    found = counts.keys.to_h { |name| [name, app.producer.partition_count(name)] }
    assert_equal counts, found
    app.producer.produce_sync(topic: "made", partition: 2, payload: "1")
    assert_equal [2, 0, "1"], @seen.pop
    errors = []
    errors << @events.pop until @events.empty?
    assert_empty errors.select { |name, _| name == "error.occurred" }
  end

  def test_dead_letters_get_the_partitions_that_their_main_topic_has
    existing = topic(4)
    app = app(create_topics: true) do
      topic existing, to: Class.new(Pelton::Consumer) { def consume = nil } do
        retry_in 5
        dead_letters "#{existing}.dead"
      end
    end
    app.start
    assert_equal [4, 4], %w[retry.5 dead].map { |name| app.producer.partition_count("#{existing}.#{name}") }
  end
end
