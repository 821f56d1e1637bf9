# frozen_string_literal: true

require_relative "../test_helper"
require "support/dead_letters_kit"

# What becomes of a message that fails for good: dead letters. (The user's own decisions: failures_test.)
class DeadLettersTest < Minitest::Test
  include DeadLettersKit

  # A copy of a copy by another program: the last one is ours.
  def test_last_of_two_equal_headers_counts
    headers = { "pelton.topic" => %w[older orders], "pelton.partition" => %w[9 3], "pelton.offset" => %w[1 7],
                "pelton.attempts" => %w[8 2] }
    origin = Pelton::Origin.of(Fakes::Message.new("dead", 0, 0, "x", headers: headers))
    assert_equal ["orders", 3, 7, 2], [origin.topic, origin.partition, origin.offset, origin.attempts]
  end

  def test_dead_letter_copies_its_message_and_names_its_origin
    headers = { "a" => %w[1 2], "b" => nil, "bin" => "\xFF", "pelton.topic" => "older", "pelton.due_at" => "7" }
    failing(5, messages: [message_at(5, "{broken", key: "k", headers: headers, timestamp_ms: 1_700_000_000_123)])
    work_all
    copy = dead.first
    assert_equal ["{broken", "k", 1_700_000_000_123], [copy.raw_payload, copy.key, copy.timestamp_ms]
    origin = Pelton::Origin.of(copy)
    assert_equal ["orders", 0, 5, "g", 1, "IOError", "bad", nil],
                 [origin.topic, origin.partition, origin.offset, origin.group, origin.attempts, origin.error,
                  origin.error_message, origin.due_at]
    assert_in_delta Time.now, origin.failed_at, 60
    assert_equal({ "a" => %w[1 2], "b" => nil, "bin" => "\xFF" },
                 copy.headers.reject { |name, _| name.start_with?("pelton.") })
    assert_equal %w[attempts backtrace error error_message failed_at failure_id group offset partition timestamp_ms
                    topic],
                 copy.headers.keys.grep(/\Apelton\./).map { |name| name.delete_prefix("pelton.") }.sort
    assert_equal [6], marked
  end

  def test_dead_letter_has_the_first_lines_of_the_backtrace
    failing(5, messages: [message_at(5)])
    work_all
    lines = Pelton::Origin.of(dead.first).backtrace
    assert_equal 20, lines.size
    assert_match(/dead_letters_kit\.rb:\d+:in /, lines.first)
    assert_equal [0, 3], [0, 3].map { |count| backtrace(IOError.new("bad"), count).to_a.size }
  end

  # The backtrace of the error in a copy with so many lines, as a reader of the letter sees it.
  def backtrace(error, lines, trace = Array.new(50) { |number| "app.rb:#{number}:in 'call'" })
    error.set_backtrace(trace)
    failure = Pelton::Consuming::Failure.new(error, message_at(5), 1, "id")
    headers = Pelton::Origin.after(failure, group: "g", first: nil, backtrace: lines).headers({})
    Pelton::Origin.of(Fakes::Message.new("dead", 0, 0, "x", headers: headers)).backtrace
  end

  def test_a_backtrace_in_a_letter_is_valid_text_of_8_kb_at_most
    long = backtrace(IOError.new, 1_000, Array.new(100) { "x" * 999 })
    assert_equal [8, 999], [long.size, long.first.size]
    assert_equal ["x" * 1_000], backtrace(IOError.new, 1, ["x" * 5_000])
    assert_equal ["app\u00e9.rb:1", "a b"], backtrace(IOError.new, 5, ["app\u00e9.rb:1", "a\nb"])
    assert_equal ["a?b"], backtrace(IOError.new, 5, ["a\xFFb"])
    assert_nil backtrace(IOError.new, 5, [])
    ours = File.expand_path("../../lib/pelton/worker.rb:7", __dir__)
    assert_equal ["a.rb:1", ours, "b.rb:2"], backtrace(IOError.new, 5, ["a.rb:1", ours, "b.rb:2", ours, ours])
    assert_equal [ours], backtrace(IOError.new, 5, [ours])
  end

  # A message with a nil payload stays one in its dead letter.
  def test_tombstone_stays_a_tombstone_in_its_dead_letter
    failing(0, messages: [message_at(0, nil, key: "k")])
    work_all
    assert_predicate dead.first, :tombstone?
  end

  def test_only_the_message_that_fails_alone_goes
    failing(0, 2)
    work_all
    assert_equal([0, 2], dead.map { |copy| Pelton::Origin.of(copy).offset })
    assert_equal [:assigned, [0, 1, 2], [0], [1], [2]], @log
    assert_equal [1, 2, 3], marked
    told = named("message.dead_lettered")
    assert_equal([[0, "dead", IOError], [2, "dead", IOError]], told.map { |e| [e[:offset], e[:to], e[:error].class] })
  end

  # Who is to blame is the first message that is not marked when consume raises; only a job of its own proves it.
  def test_the_neighbour_of_a_marked_message_went_to_the_dead_letters_unread
    tries = Hash.new(0)
    script do |consumer|
      consumer.messages.each do |message|
        tries[message.offset] += 1
        consumer.mark_as_consumed(message)
        raise IOError, "behind its mark" if message.offset.zero?
      end
    end
    coordinator(dead_letters: "dead", retries: 0, backoff: 0..0).receive(batch(0, 1))
    work
    work_all
    assert_equal [:assigned, [0, 1], [1]], @log
    assert_equal({ 0 => 1, 1 => 1 }, tries)
    assert_empty named("message.dead_lettered")
    assert_equal 2, @ownership.marks.last.first
  end

  def test_the_first_that_is_not_marked_is_tried_as_often_as_the_topic_says
    attempts = []
    script do |consumer|
      consumer.messages.each do |message|
        attempts << [message.offset, consumer.attempt]
        raise IOError, "poison" if message.offset == 1

        consumer.mark_as_consumed(message)
      end
    end
    coordinator(dead_letters: "dead", retries: 2, backoff: 0..0).receive(batch(0, 1, 2))
    work
    work_all
    assert_equal [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]], attempts
    assert_equal [[1, 3]], (named("message.dead_lettered").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal 3, @ownership.marks.last.first
  end

  def test_dead_letters_of_one_partition_go_to_one_partition
    [0, 1, 3].each do |partition|
      topic = Pelton::Routing::Topic.new("orders", Consumer, { dead_letters: "dead", retries: 0, max_messages: 9 })
      facts = { group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner }
      @coordinator = Pelton::Consuming::Coordinator.new(topic, partition, **facts).start
      failing(7, messages: [message_at(7, partition: partition)])
      work_all
    end
    assert_equal([[0, 0], [1, 1], [3, 1]], dead.map { |copy| [Pelton::Origin.of(copy).partition, copy.partition] })
  end

  def test_retries_default_to_three_with_dead_letters
    failing(0, messages: [message_at(0)], retries: nil)
    work_all
    assert_equal [:assigned, [0], [0], [0], [0]], @log
    assert_equal 4, Pelton::Origin.of(dead.first).attempts
  end

  def test_failed_dead_letter_is_reported_and_the_message_runs_again
    timed_out = Pelton::KafkaError.new(-192, :_MSG_TIMED_OUT)
    @producer.instance_variable_get(:@log).fail_next(timed_out, 1, "dead") # fail_next itself asks the extension
    failing(0, messages: [message_at(0)], backoff: 1..1)
    work
    assert_empty marked
    assert_empty named("message.dead_lettered")
    error = named("error.occurred").last
    assert_equal ["forward", 0, :_MSG_TIMED_OUT], [error[:source], error[:offset], error[:error].name]
    assert_equal 1, named("consumer.retrying").size
    assert_equal 1, @owner.named(:retry_at).size
    assert_predicate self, :idle?
    wake
    work
    assert_equal [1], marked
    assert_equal 2, Pelton::Origin.of(dead.first).attempts
  end

  def test_missing_dead_letter_topic_is_reported_and_the_message_stays
    failing(0, messages: [message_at(0)], dead_letters: "missing", backoff: 1..1)
    work
    assert_empty marked
    assert_equal "forward", named("error.occurred").last[:source]
    assert_equal 1, @owner.named(:retry_at).size
  end

  def test_a_copy_does_not_go_through_the_middleware_again
    @producer.middleware.append(->(message) { message.merge(payload: "changed") })
    failing(0, messages: [message_at(0, "raw")])
    work_all
    assert_equal ["raw"], dead.map(&:raw_payload)
  end

  # A job that ends after its partition was revoked sends no dead letter: the next owner decides.
  def test_no_copy_once_the_partition_is_revoked
    failing(0, messages: [message_at(0)])
    script do
      coordinator.end(:revoked)
      raise "late"
    end
    work_all
    assert_equal [:assigned, [0], :revoked], @log
    assert_empty dead
    assert_empty marked
  end

  def test_revocation_during_the_dispatch_still_marks_sent_messages
    failing(0, messages: [message_at(0)])
    count = @producer.method(:partition_count)
    @producer.define_singleton_method(:partition_count) do |topic|
      @on_count&.call
      count.call(topic)
    end
    @producer.instance_variable_set(:@on_count, -> { coordinator.end(:revoked) })
    work_all
    assert_equal 1, dead.size
    assert_equal [1], marked
  end

  # A letter that is on its way cannot be recalled.
  def test_seek_during_a_dispatch_repeats_the_message_only_if_it_goes_back_to_it
    [[0, 2], [1, 1]].each do |place, letters|
      failing(0, messages: [message_at(0)])
      count = @producer.method(:partition_count)
      seek = [place]
      @producer.define_singleton_method(:partition_count) { |topic| count.call(topic).tap { @on_count.call } }
      @producer.instance_variable_set(:@on_count, -> { (to = seek.shift) && coordinator.seeks.to(to) })
      work_all
      coordinator.receive(batch(*(place..1)))
      work_all
      assert_equal [letters, [2]], [dead.size, [marked.last]]
      anew
    end
  end

  def test_kill_during_the_dispatch_leaves_the_message_to_be_retried
    failing(0, messages: [message_at(0)], backoff: 1..1)
    @producer.hold
    worker = Thread.new { work }
    eventually { worker.status == "sleep" }
    worker.kill
    assert worker.join(60)
    assert_empty marked
    assert_equal 1, @owner.named(:retry_at).size
  ensure
    @producer.release
  end

  def test_a_group_with_a_cluster_of_its_own_has_a_producer_for_copies
    @owner.copier = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: { "dead" => 2 })
    failing(0)
    work_all
    producer = nil
    script do |consumer|
      producer = consumer.producer
      consumer.dispatch_to_dead_letters(consumer.messages.first)
    end
    coordinator.receive(batch(3))
    work_all
    assert_equal([0, 3], @owner.copier.messages("dead").map { |copy| Pelton::Origin.of(copy).offset })
    assert_empty dead
    assert_same @producer, producer, "for what the user produces"
  ensure
    @owner.copier.close
  end

  # `/live` took a broker that is away for a consume that hangs.
  def test_while_a_copy_is_sent_the_consumer_is_at_no_call
    busy = []
    script do
      busy << coordinator.executors.first.busy&.first
      raise IOError, "bad"
    end
    count = @producer.method(:partition_count)
    @producer.define_singleton_method(:partition_count) { |topic| count.call(topic).tap { @on_count.call } }
    @producer.instance_variable_set(:@on_count, -> { busy << coordinator.executors.first.busy })
    coordinator(dead_letters: "dead", retries: 0).receive(batch(0))
    work
    work_all
    assert_equal [:consume, nil], busy
    assert_equal 1, dead.size
  end

  # One that is given message by message.
  class One < Pelton::Consumer
    def process(message) = CoordinatorKit::Consumer.script.call(self, message)
  end

  # The skip that the copy leads to passed over the next one, that nobody had seen.
  def test_a_message_that_another_thread_marks_before_it_is_skipped
    [{ dead_letters: "dead" }, { then: :skip }, { dead_letters: "dead", concurrency: 2 }].each do |settings|
      anew
      seen = []
      script do |consumer, message|
        seen << message.offset
        next unless message.offset == 1

        @bus.subscribe("error.occurred") { Thread.new { consumer.mark_as_consumed(message) }.join }
        raise IOError, "bad"
      end
      topic = Pelton::Routing::Topic.new("orders", One, { max_messages: 9, retries: 0, by: ->(_) { 1 }, **settings })
      flow = Pelton::Consuming::Flow.for(topic, @bus)
      @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                  jobs: @jobs, bus: @bus, owner: @owner).start
      @coordinator.receive(batch(0, 1, 2, 3))
      work_all
      assert_equal [0, 1, 2, 3], seen
      assert_equal 4, marked.last
    end
  end

  def test_marks_of_the_user_stay_after_a_dead_letter
    failing(1, messages: [message_at(0), message_at(1)], manual_offsets: true)
    work_all
    assert_equal 1, dead.size
    assert_empty marked
  end

  def test_dead_letter_of_an_error_without_a_text_message_is_sent
    broken = Class.new(StandardError) { def message = raise("no message") }
    ["\xFF\xFEbinary".b, "é" * 2_000, "latin \xE9".dup.force_encoding("ISO-8859-1"), "x".encode("UTF-16LE"), broken.new,
     nil, 7].each do |what|
      failure = Pelton::Consuming::Failure.new(what.is_a?(Exception) ? what : IOError.new(what), message_at(0), 1)
      text = Pelton::Origin.after(failure, group: "g", first: nil).error_message
      assert_equal [Encoding::UTF_8, true], [text.encoding, text.valid_encoding?]
      assert_operator text.bytesize, :<=, 1_000
    end
  end

  # With `by: :key`, only the message that fails becomes a dead letter, not its whole batch.
  def test_with_order_per_key_only_the_poison_message_goes_and_the_other_keys_do_not_wait
    messages = %w[a b a c b a].each_with_index.map { |key, offset| message_at(offset, key: key) }
    script { |consumer| raise IOError, "bad" if consumer.messages.any? { |message| message.offset == 2 } }
    coordinator(dead_letters: "dead", retries: 1, backoff: 1..1, concurrency: 3).receive(Fakes::Batch.new(messages))
    work_all
    keys = messages.map(&:key)
    assert_equal [1, 3, 4], @log.grep(Array).flatten.reject { |offset| keys[offset] == "a" }.sort, "while a waits"
    assert_empty dead
    assert_operator marked.last.to_i, :<=, 2
    5.times { [wake, work_all] }
    assert_equal([2], dead.map { |copy| Pelton::Origin.of(copy).offset })
    assert_equal 2, Pelton::Origin.of(dead.first).attempts
    assert_equal [5], @log.last, "its key goes on behind it"
    assert_equal([[2, "dead"]], named("message.dead_lettered").map { |event| [event[:offset], event[:to]] })
    assert_equal 6, marked.last
  end

  # --- by hand ---

  def test_dispatch_by_hand
    script do |consumer|
      assert consumer.dispatch_to_dead_letters(consumer.messages.first, reason: "no such customer")
      assert consumer.dispatch_to_dead_letters(consumer.messages.first, reason: KeyError.new("key"))
      assert consumer.dispatch_to_dead_letters(consumer.messages.first)
    end
    coordinator(dead_letters: "dead").receive(batch(3))
    2.times { work }
    origins = dead.map { |copy| Pelton::Origin.of(copy) }
    assert_equal [[nil, "no such customer"], %w[KeyError key], [nil, nil]],
                 (origins.map { |origin| [origin.error, origin.error_message] })
    assert_equal [3, 3, 3], origins.map(&:offset)
    assert_equal [4], marked
    assert_empty named("error.occurred")
  end

  # `messages.last` is nil in a tick.
  def test_dead_letter_of_a_message_from_another_partition_is_refused
    strange = [nil, "x", batch(3), Fakes::Message.new("other", 0, 1, "x")]
    script do |consumer|
      %i[mark_as_consumed mark_as_consumed! dispatch_to_dead_letters].product(strange) do |name, value|
        error = assert_raises(Pelton::InvalidMessageError) { consumer.public_send(name, value) }
        assert_includes error.message, "expected a message of orders/0"
      end
    end
    coordinator(dead_letters: "dead").receive(batch(3))
    2.times { work }
    assert_empty named("error.occurred")
    assert_empty dead
  end

  def test_dispatch_by_hand_without_a_topic_or_a_partition
    seen = nil
    script { |consumer| consumer.dispatch_to_dead_letters(consumer.messages.first) }
    coordinator(retries: 0, then: :skip).receive(batch(3))
    2.times { work }
    assert_includes named("error.occurred").first[:error].message, "topic orders: dead_letters: is not set"
    @coordinator = nil
    script do |consumer|
      coordinator.abandon
      seen = [consumer.dispatch_to_dead_letters(consumer.messages.first)]
    end
    coordinator(dead_letters: "dead").receive(batch(4))
    2.times { work }
    assert_equal [false], seen
    assert_empty dead
  end
end
