# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Retry topics through real clients: what they share with the main topic.
class EmbeddedRetryTopicsTest < Minitest::Test
  include EmbeddedApp

  # Two workers, and two partitions with a job that takes long. If the retry topic were no topic of its own, both
  # workers would have one, and the message that failed would wait for them.
  def test_retry_topic_counts_as_another_topic_for_the_last_free_worker
    name = topic(2)
    @cluster.create_topic("#{name}.retry.1", 2)
    seen = @seen
    go = Thread::Queue.new
    working = consumer do
      raise KeyError, "no total" if topic == name && messages.first.raw_payload == "bad"

      seen << [topic, messages.first.raw_payload]
      go.pop if topic == name
    end
    app = app(concurrency: 2) { topic(name, to: working) { retry_in(1) && max_messages(1) } }
    produce(app, name, %w[bad slow])
    app.start
    eventually(20, "the copy") { happened("message.postponed").any? }
    produce(app, name, %w[slow], partition: 1)
    assert_equal [[name, "slow"], ["#{name}.retry.1", "bad"]], take(2)
    jobs = { running: 1, waiting: 1, aside: 0 }
    eventually(20, -> { "a worker stays free: #{app.stats[:jobs]}" }) { app.stats[:jobs] == jobs }
    go.close
    assert_equal [[name, "slow"]], take(1)
    assert app.stop
  end
end
