# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Letters on the mock cluster, which cannot create the topic for their status, and keeps what a transaction aborts. The
# rest is for the real broker (test/integration/dead_letters_redrive.rb and dead_letters_retry_topic.rb).
class DeadLettersTest < Minitest::Test
  include EmbeddedApp

  # An app whose consumer reads `name` and fails until `healed`.
  class Failing < Pelton::Consumer
    class << self
      attr_accessor :healed, :seen
    end

    def process(message)
      raise ArgumentError, "not yet #{message.raw_payload}" unless Failing.healed

      Failing.seen << [message.raw_payload, message.partition, attempt, message.origin.redrives, topic[/retry.*/]]
    end
  end

  def setup
    super
    @name = topic(2)
    @dead = topic
    @cluster.create_topic("#{@dead}.status", 1)
    Failing.healed = false
    Failing.seen = @seen
  end

  # Starts an app that fails, until there are so many letters.
  def fail_until(letters, retry_in: nil)
    name = @name
    dead = @dead
    app = app do
      topic name, to: Failing do
        retry_in retry_in if retry_in
        dead_letters dead, retries: 0
      end
    end
    app.start
    eventually(30) { happened("message.dead_lettered").size == letters }
    app
  end

  def test_letters_are_redriven_once_and_processed_again
    producing = app
    produce(producing, @name, %w[a b c d e], partition: 1)
    app = fail_until(5)
    letters = app.dead_letters(@dead)
    assert_equal [{ "ArgumentError" => 5 }, ["not yet e", "not yet d"]],
                 [letters.count_by(:error), letters.list(limit: 2).map { |letter| letter.origin.error_message }]
    place = letters.list.last.place
    assert_equal [1, 4], [letters.delete(id: place).handled, letters.redrive(dry_run: true).handled]
    Failing.healed = true
    assert_equal [[2, {}, "0/3"], [2, {}, nil], [0, {}, nil]],
                 [letters.redrive(limit: 2), letters.redrive, letters.redrive].map(&:to_a)
    assert_equal %w[b c d e].map { |payload| [payload, 1, 1, 1, nil] }, take(4)
    assert_equal({ redriven: 4, deleted: 1 }, letters.count_by(:status, status: :all))
    assert_equal [:deleted, nil], [letters.find(place).status, letters.find("0/77")]
    app.stop
    assert_empty @seen
  end

  def test_letters_of_some_offsets_come_range_by_range
    producing = app
    produce(producing, @name, %w[a b c d e], partition: 1)
    letters = fail_until(5).dead_letters(@dead)
    letters.delete(id: "0/3")
    found = []
    letters.within([{ 0 => 2...5 }, { 0 => 0...2 }], done: -> { found << :done }) { |letter| found << letter.place }
    assert_equal ["0/2", "0/4", :done, "0/0", "0/1", :done], found
  end

  def test_a_retry_topic_brings_a_letter_to_its_group_only
    @cluster.create_topic("#{@name}.retry.0.1", 1)
    producing = app
    produce(producing, @name, %w[a])
    first = fail_until(1, retry_in: 0.1)
    second = fail_until(2, retry_in: 0.1)
    Failing.healed = true
    letters = producing.dead_letters(@dead)
    assert_equal [2, 1], [letters.each.count, letters.each(from: -1).count]
    result = letters.redrive(retry_topic: 0.1, group: first.config.group_id)
    assert_equal [1, {}], result.to_a.first(2)
    assert_equal [["a", 0, 1, 1, "retry.0.1"]], take(1)
    eventually(20) { happened("message.dropped").any? { |event| event[:reason] == :of_another_group } }
    [first, second].each(&:stop)
    assert_empty @seen
  end

  # The replacement was part of the same transaction, which the refusal had ended: "Erroneous state".
  def test_letter_by_hand_that_kafka_refuses_in_a_transaction_raised_erroneous_state
    name = @name
    dead = @dead
    raised = []
    dispatching = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        transaction do
          dispatch_to_dead_letters(message, reason: "by hand")
          mark_as_consumed(message)
        rescue Pelton::KafkaError => e
          raised << e.name
          raise
        end
      end
    end
    app = app do
      topic name, to: dispatching do
        transactional "shop"
        dead_letters dead, retries: 0
      end
    end
    produce(app, name, %w[a])
    # Produce: MSG_SIZE_TOO_LARGE by hand; after the last retry, with and without the backtrace.
    @cluster.push_errors(0, [10] * 3)
    app.start
    eventually(30) { happened("message.dead_lettered").any? }
    assert app.stop
    assert_equal [[:MSG_SIZE_TOO_LARGE], %w[consumer.consume forward], [:MSG_SIZE_TOO_LARGE]],
                 [raised, happened("error.occurred").map { |event| event[:source] },
                  happened("message.dead_lettered").map { |event| event[:payload_omitted] }]
  end

  # A message behind the refused one got "Erroneous state", so `on_failure` could not know that no retry helps.
  def test_refused_message_of_a_transaction_reached_on_failure_as_erroneous_state
    name = @name
    dead = @dead
    out = topic
    reported = ->(delivery) { eventually(30, "its report") { delivery.done? } }
    producing = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        transaction do |tx|
          delivery = tx.produce_async(topic: out, payload: "refused")
          if message.offset == 1
            reported.call(delivery)
            tx.produce_async(topic: out, payload: "behind it")
          end
          mark_as_consumed(message)
        end
      end
    end
    asked = Thread::Queue.new
    decide = lambda do |failure|
      asked << [failure.error.name, failure.error.abortable?]
      failure.error.is_a?(Pelton::KafkaError) && failure.error.message_refused? ? :dead_letter : :retry
    end
    app = app do
      topic name, to: producing do
        transactional "shop"
        dead_letters dead, retries: :unlimited
        on_failure decide
      end
    end
    produce(app, name, %w[a b])
    # Produce: MSG_SIZE_TOO_LARGE for each message; between them the letter of the first one.
    @cluster.push_errors(0, [10, 0, 10])
    app.start
    eventually(30) { happened("message.dead_lettered").size == 2 }
    assert app.stop
    assert_equal [[:MSG_SIZE_TOO_LARGE, true]] * 2, take(2, asked)
  end

  def test_missing_topic_is_named
    error = assert_raises(Pelton::ConfigError) { app.dead_letters("nowhere").list }
    assert_equal "topic = \"nowhere\": does not exist", error.message
    error = assert_raises(Pelton::ConfigError) { app.dead_letters("nowhere").redrive }
    assert_equal "topic = \"nowhere\": does not exist", error.message
  end

  # The other one opens the same transactional id.
  def test_break_and_an_error_in_the_block_leave_nothing_open
    producing = app
    produce(producing, @name, %w[a b])
    app = fail_until(2)
    app.stop
    letters = app.dead_letters(@dead)
    assert_nil(letters.redrive(limit: 1) { break })
    assert_raises(IOError) { letters.redrive { raise IOError } }
    assert_equal({ redriven: 2 }, letters.count_by(:status, status: :all))
  end
end
