# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# What becomes of messages that fail, through real clients.
class EmbeddedFailureTest < Minitest::Test
  include EmbeddedApp

  INVALID_RECORD = 87
  TXN_OFFSET_COMMIT = 28
  ILLEGAL_GENERATION = 22

  # A consumer that takes [offset, raw payload, key, headers without ours, timestamp, origin] of what it reads.
  def reader
    seen = @seen
    consumer do
      messages.each do |message|
        headers = message.headers.reject { |name, _| name.start_with?("pelton.") }
        seen << [message.partition, message.raw_payload, message.key, headers, message.timestamp_ms, message.origin]
      end
    end
  end

  def poisoned = consumer { messages.each { |message| raise KeyError, "poison" if message.key == "bad" } }

  # A dead letter has the raw bytes of its message's key and headers, also with custom deserializers.
  def test_dead_letters
    name = topic(2)
    dead = topic(3)
    failing = poisoned
    app = app do
      topic(name, to: failing) do
        decode :json
        dead_letters dead, retries: 1
        backoff 0..0
      end
    end
    headers = { "a" => %w[1 2], "nothing" => nil, "b" => "x\xFF" }
    rows = [["bad", "{broken"], ["good", "{}"], ["bad", nil], ["good", "{}"], ["bad", "last"]].map do |key, payload|
      { topic: name, partition: 1, key: key, payload: payload, headers: headers, timestamp: 1_700_000_000_123 }
    end
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    eventually(20, "three dead letters") { happened("message.dead_lettered").size == 3 }
    assert app.stop
    letters = reader
    app(group: "letters") { topic(dead, to: letters) }.start
    found = take(3)
    assert_equal [1, 1, 1], found.map(&:first)
    assert_equal ["{broken", nil, "last"], found.map { |row| row[1] }
    found.each do |_, _, key, own, time, _|
      assert_equal ["bad", 1_700_000_000_123], [key, time]
      assert_equal [%w[1 2], nil, "x\xFF".b], [own["a"], own.fetch("nothing"), own["b"].b]
    end
    origins = found.map(&:last)
    assert_equal [0, 2, 4], origins.map(&:offset)
    assert_equal [[name, 1, "KeyError", "poison"]],
                 origins.map { |origin| [origin.topic, origin.partition, origin.error, origin.error_message] }.uniq
    assert_equal([2], origins.map(&:attempts).uniq)
  end

  # The app's producer sent them to the app's cluster: they never came back.
  def test_copies_of_a_group_on_another_cluster_stay_there
    other = Pelton::EmbeddedCluster.new
    away = { "bootstrap.servers" => other.bootstrap_servers }
    [@cluster, other].each { |cluster| %w[paid paid.retry.1 dead].each { |name| cluster.create_topic(name, 1) } }
    seen = @seen
    failing = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << [message.topic, message.raw_payload, attempt]
        raise KeyError, "poison"
      end
    end
    app = app(group: "here") do
      group("there", kafka: away) do
        topic("paid", to: failing) do
          retry_in 1
          dead_letters "dead"
        end
      end
    end
    app.start
    app(kafka: away).producer.produce_sync(topic: "paid", payload: "x")
    assert_equal [["paid", "x", 1], ["paid.retry.1", "x", 2]], take(2, timeout: 40)
    eventually(20, "the dead letter") { happened("message.dead_lettered").any? }
    assert app.stop
    assert_includes happened("producer.closed").map { |closed| closed[:undelivered] }, 0
    ends = [@cluster, other].map do |cluster|
      reader = Pelton::Subscription.new(app.config, group_id: "ends",
                                                    kafka: { "bootstrap.servers" => cluster.bootstrap_servers })
      %w[paid.retry.1 dead].map { |name| reader.watermarks(name, 0).last }.tap { reader.close }
    end
    assert_equal [[0, 0], [1, 1]], ends
  ensure
    @apps.each { |opened| opened.close(timeout: 5) }
    other&.close
  end

  # Each copy is held up where Kafka would hold it up: 100 have a thread, the others wait for these.
  def test_150_failing_partitions_leave_the_only_worker_to_a_healthy_topic
    name = topic(150)
    healthy = topic
    dead = topic
    gate = Thread::Queue.new
    failing = poisoned
    reader = collector
    app = app(concurrency: 1) do
      topic(name, to: failing) do
        dead_letters dead, retries: 0
        on_dead_letter { |_letter, _failure| gate.pop }
      end
      topic(healthy, to: reader)
    end
    rows = Array.new(150) { |number| { topic: name, partition: number, key: "bad", payload: "x" } }
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    eventually(60, "150 copies, 100 of them at the gate") do
      [*app.stats[:jobs].values_at(:running, :aside), gate.num_waiting] == [0, 150, 100]
    end
    assert_operator Thread.list.count { |thread| thread.name.to_s.start_with?("pelton.worker") }, :<=, 102
    3.times do |number|
      produce(app, healthy, [number.to_s])
      assert_equal [[0, number, number.to_s]], take(1)
    end
    assert_empty happened("message.dead_lettered")
    150.times { gate << true }
    eventually(60, "150 letters") do
      happened("message.dead_lettered").map { |event| event[:partition] }.uniq.size == 150
    end
    assert app.stop
    assert_equal 150, happened("message.dead_lettered").size
  ensure
    150.times { gate << true }
  end

  # Twin of dead_letters: what changes the letters fails at first, and nothing goes out unchanged.
  def test_dead_letters_that_are_changed_on_their_way
    name = topic
    dead = topic
    failing = Class.new(Pelton::Consumer) do
      define_method(:process) { |message| raise KeyError, "poison" if message.key == "bad" }
    end
    fails = 2
    app = app(group: "changed") do
      topic(name, to: failing) do
        dead_letters dead, retries: 0
        backoff 0..0.01
        on_dead_letter do |letter, failure|
          raise IOError, "no key yet" if (fails -= 1) >= 0

          letter[:headers]["attempt"] = failure.attempt.to_s
          letter[:payload] = letter[:payload].reverse
        end
      end
    end
    app.producer.produce_many_sync(%w[fine bad fine].map { |key| { topic: name, key: key, payload: "abc" } },
                                   timeout: 20)
    app.start
    eventually(20, "the dead letter") { happened("message.dead_lettered").size == 1 }
    assert app.stop
    assert_equal [3], committed("changed", [[name, 0]])
    letter = app.each(dead).to_a
    assert_equal [["cba", "3", 1]],
                 letter.map { |message| [message.raw_payload, message.headers["attempt"], message.origin.offset] }
    id = happened("message.dead_lettered").first[:failure_id]
    assert_equal id, letter.first.origin.failure_id
    told = happened("error.occurred").group_by { |event| event[:source] }
    assert_equal ["no key yet"] * 2, told["forward"].map { |event| event[:error].message }
    assert_equal id, told["consumer.consume"].last[:failure_id], "an error and its letter are found by each other"
  end

  def test_refused_dead_letter_leaves_its_message_uncommitted
    name = topic
    dead = topic
    failing = poisoned
    app = app { topic(name, to: failing) { [dead_letters(dead, retries: 0), backoff(0..0.01)] } }
    app.producer.produce_sync(topic: name, key: "bad", payload: "x")
    @cluster.push_errors(0, [INVALID_RECORD] * 2)
    app.start
    eventually(20, "the copy") { happened("message.dead_lettered").size == 1 }
    assert app.stop
    refused = happened("error.occurred").select { |event| event[:source] == "forward" }
    assert_equal %i[INVALID_RECORD INVALID_RECORD], refused.map { |event| event[:error].name }
    assert_equal [2], happened("message.dead_lettered").map { |event| event[:attempts] }, "also without its payload"
    letters = reader
    app(group: "letters") { topic(dead, to: letters) }.start
    assert_equal "x", take(1).first[1]
    assert_predicate @seen, :empty?
  end

  def test_retry_topics_and_then_dead_letters
    name = topic
    %w[0.1 0.5].each { |seconds| @cluster.create_topic("#{name}.retry.#{seconds}", 2) }
    dead = topic
    seen = @seen
    thirds = Thread::Queue.new
    working = consumer do
      messages.each do |message|
        late = message.origin ? Time.now - message.origin.due_at : 0
        seen << [message.topic.delete_prefix(name), message.key, attempt, late]
        thirds << message.key if attempt == 3
        raise KeyError, "poison" if message.key == "bad" || (message.key == "late" && attempt < 3)
      end
    end
    app = app do
      topic(name, to: working) do
        retry_in 0.1, 0.5
        dead_letters dead
        backoff 0..0
      end
    end
    app.producer.produce_many_sync(%w[fine bad late fine].map { |key| { topic: name, key: key, payload: key } },
                                   timeout: 20)
    app.start
    eventually(30, "the dead letter") { happened("message.dead_lettered").size == 1 }
    eventually(30, "both third tries") { thirds.size == 2 }
    assert app.stop
    rows = Array.new(@seen.size) { @seen.pop }
    way = rows.group_by { |row| row[1] }.transform_values { |list| list.map { |row| row.values_at(0, 2) }.uniq }
    assert_equal [[".retry.0.1", 2], [".retry.0.5", 3]], way["bad"].last(2)
    assert_equal [[".retry.0.1", 2], [".retry.0.5", 3]], way["late"].last(2)
    assert_equal [""], way["fine"].map(&:first).uniq
    calls = happened("consumer.consumed").reject { |event| event[:topic] == name }
    assert_equal [[".retry.0.1", 2], [".retry.0.5", 3]],
                 calls.map { |event| [event[:topic].delete_prefix(name), event[:attempt]] }.uniq.sort
    assert rows.reject { |row| row[0].empty? }.all? { |row| row[3] >= 0 }, "none before its time: #{rows}"
    letters = reader
    app(group: "letters") { topic(dead, to: letters) }.start
    letter = take(1).first
    assert_equal [name, 3, "bad"], [letter.last.topic, letter.last.attempts, letter[1]],
                 "topic, attempts, the error's message"
  end

  # The group was refused in its transaction's name, as after a rebalance: the messages come again.
  def test_a_transaction_in_consume
    name = topic
    out = topic
    seen = @seen
    copying = consumer do
      transaction do |tx|
        seen << messages.map(&:offset)
        messages.each { |message| tx.produce_async(topic: out, payload: message.raw_payload) }
        mark_as_consumed(messages.last)
      end
    end
    app = app(group: "once", kafka: ONE_BATCH) do
      topic(name, to: copying) do
        transactional "copy"
        backoff 0..0.01
      end
    end
    produce(app, name, %w[0 1 2])
    @cluster.push_errors(TXN_OFFSET_COMMIT, [ILLEGAL_GENERATION])
    app.start
    assert_equal [[0, 1, 2], [0, 1, 2]], take(2)
    eventually(20, "the commit") { happened("transaction.committed").any? }
    assert_equal [Pelton::AssignmentLost], errors.map(&:class)
    assert app.stop
    assert_equal [2, 1, 1], %w[started committed aborted].map { |what| happened("transaction.#{what}").size }
    assert_equal [nil], committed("once", [[name, 0]]), "only in transactions, whose offsets the mock does not keep"
    assert_equal 2, happened("producer.opened").size, "the app's and the partition's"
    assert_equal [0], happened("producer.closed").map { |event| event[:undelivered] }
  end

  # Twin of exactly_once_lost: a rebalance that does not wait takes the partitions in the middle of their transactions.
  def test_partitions_that_are_lost_inside_a_transaction
    name = topic(2)
    out = topic
    entered = Thread::Queue.new
    gate = Thread::Queue.new
    ends = Thread::Queue.new
    held = consumer do
      transaction do |tx|
        tx.produce_async(topic: out, payload: "held")
        entered << partition
        gate.pop
        mark_as_consumed(messages.last)
      end
    rescue Pelton::Error => e
      ends << e.class
      raise
    end
    first = app(group: "lost", kafka: OFTEN, revocation_timeout: 0.2) do
      topic(name, to: held) { transactional "first" }
    end
    2.times { |partition| produce(first, name, %w[x], partition: partition) }
    first.start
    assert_equal [0, 1], take(2, entered, timeout: 30).sort
    reader = collector
    second = app(group: "lost", kafka: OFTEN) { topic(name, to: reader) }
    second.start
    taken = take(1, timeout: 60).first.first
    gate.close
    take(1, ends, timeout: 30)
    eventually(30, "an abort") { happened("transaction.aborted").any? }
    aborted = happened("transaction.aborted").map { |event| event[:error].class }
    assert_equal [Pelton::AssignmentLost], aborted.uniq
    assert_includes [0, 1], taken, "the message is another's, who has it"
    assert second.stop(timeout: 20)
    assert first.stop(timeout: 20)
    started, *ended = %w[started committed aborted].map { |what| happened("transaction.#{what}").size }
    assert_equal started, ended.sum, "transactions that ended, committed or aborted"
  end

  # Twin of on_failure: what a callable may say, a partition each.
  def test_a_callable_decides
    words = %i[retry dead_letter elsewhere skip stop raises]
    name = topic(words.size)
    dead = topic
    other = topic
    decide = lambda do |failure|
      case word = words[failure.partition]
      when :elsewhere then [:dead_letter, other]
      when :raises then raise "cannot decide"
      else word
      end
    end
    done = Thread::Queue.new
    work = consumer do
      messages.each do |message|
        raise KeyError, "poison" if message.key == "bad"

        done << [partition, message.offset]
        mark_as_consumed(message)
      end
    end
    app = app(group: "decided") do
      topic(name, to: work) do
        on_failure decide
        dead_letters dead, retries: 1
        backoff 0..0.01
      end
    end
    rows = words.each_index.flat_map do |place|
      %w[fine bad fine].map { |key| { topic: name, partition: place, key: key, payload: place.to_s } }
    end
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    ends = words.map { |word| word == :stop ? 1 : 3 }
    eventually(30, "what is done") { done.size == ends.sum { |count| count == 3 ? 2 : 1 } }
    eventually(30, "a stop") { happened("partition.stopped").any? }
    eventually(30, "dead letters") { happened("message.dead_lettered").size == 4 }
    eventually(30, "a skip") { happened("message.skipped").any? }
    assert app.stop
    assert_equal ends, committed("decided", words.each_index.map { |place| [name, place] })
    assert_equal %w[0 1 5], app.each(dead).map(&:raw_payload).sort
    assert_equal %w[2], app.each(other).map(&:raw_payload)
    assert_equal [3, 4], [happened("message.skipped")[0][:partition], happened("partition.stopped")[0][:partition]]
    handled = Array.new(done.size) { done.pop }
    assert_equal words.each_index.flat_map { |place| place == 4 ? [[4, 0]] : [[place, 0], [place, 2]] }, handled.sort
  end

  def test_dead_letters_of_an_aborted_transaction
    name = topic
    dead = topic
    failing = poisoned
    app = app(group: "once", kafka: { "transactional.id" => "app" }) do
      topic(name, to: failing) do
        dead_letters dead, retries: 0
        backoff 0..0.01
      end
    end
    app.producer.produce_many_sync(%w[fine bad fine].map { |key| { topic: name, key: key, payload: key } }, timeout: 20)
    @cluster.push_errors(TXN_OFFSET_COMMIT, [ILLEGAL_GENERATION])
    app.start
    eventually(20, "the dead letter") { happened("message.dead_lettered").size == 1 }
    assert app.stop
    assert_equal [3], committed("once", [[name, 0]])
    forward = happened("error.occurred").select { |event| event[:source] == "forward" }
    assert_equal [Pelton::AssignmentLost], forward.map { |event| event[:error].class }
    assert_equal [1], happened("message.dead_lettered").map { |event| event[:offset] }
  end
end
