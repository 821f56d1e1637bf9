# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "timeout"

# The garbage collector at its worst: at every allocation, and moving everything.
class NativeGcTest < Minitest::Test
  include NativeKit

  DOCUMENT = '{"a":[1,2.5,null,true,{"b":"é","":[]}],"long key of a document":"\\u00e9","n":12345678901234567}'

  def test_every_class_under_stress
    topic = new_topic
    writer = producer
    reader = subscription({}, { decode: { topic => :json } })
    reader.assign([[topic, 0, 0]])
    expected = JSON.parse(DOCUMENT)
    stressed do
      delivery = writer.produce(topic, DOCUMENT, "key", 0, nil, { "h" => "v", "m" => %w[1 2] }, 5).wait(timeout: 60)
      assert_equal [[topic, 0, 0, nil]], delivery.reports
      rows = [{ topic: topic, payload: DOCUMENT, partition: 0 },
              { topic: topic, payload: "not json", key: "k", partition: 0, timestamp: Time.now,
                headers: { "x" => nil } }]
      assert_equal [1, 2], writer.produce_many(rows, 5).wait(timeout: 60).reports.map { |report| report[2] }
      assert_raises(Pelton::InvalidMessageError) { writer.produce(topic, 1, nil, 0, nil, nil, 1) }
    end
    events = []
    events << reader.poll(5) until events.sum { |kind, batch| kind == :batch ? batch.size : 0 } >= 3
    stressed do
      found = events.flat_map { |_, batch| batch.messages }
      assert_equal [0, 1, 2], found.map(&:offset)
      assert_equal "key", found[0].key
      assert_equal({ "h" => "v", "m" => %w[1 2] }, found[0].headers)
      assert_equal DOCUMENT.b, found[0].raw_payload
      assert_equal 2.5, found[1].dig("a", 1)
      assert_equal expected, found[0].payload
      assert_same found[0].payload, found[0].payload
      assert_raises(Pelton::DecodeError) { found[2].payload }
      assert_equal [topic, 0], [found[2].topic, found[2].partition]
      events.each { |_, batch| batch.release }
      assert_equal expected, found[1].payload
      assert_equal true, reader.mark(topic, 0, 1)
      assert_equal [[topic, 0]], reader.assignment
    end
  end

  def test_events_and_metadata_under_stress
    topic = new_topic(2)
    # A poller of its own: the shared one may hold thousands of events of earlier tests, each of them ten collections.
    poller = Native::Poller.new("told under stress")
    lonely = lonely_producer({ "message.timeout.ms" => "50", "statistics.interval.ms" => "100" }, { poller: poller })
    lonely.produce("t", "x", nil, -1, nil, nil, 1)
    kinds = []
    options = server
    stressed do
      assert_equal 2, Native.metadata(options, topic, 60)[:topics][topic]
      eventually(60) { kinds.concat(poller.next_events(1, 1).map(&:first)).then { kinds.include?(:statistics) } }
    end
  end

  # A released batch takes back what it told of, but for what message objects hold until they are collected.
  def test_garbage_collector_knows_the_memory_of_messages
    topic = topic_of(*["x" * 10_000] * 60)
    [true, false].each do |holds|
      GC.start
      GC.disable
      found = batches(topic, 60)
      before = GC.stat(:malloc_increase_bytes)
      held = found.map(&:messages) if holds
      found.each(&:release)
      assert_in_delta holds ? 0 : -600_000, GC.stat(:malloc_increase_bytes) - before, 200_000, held.inspect.to_s[0, 99]
    ensure
      GC.enable
    end
  end

  def test_objects_survive_creation_and_close_under_gc_stress
    stressed do
      cluster = Native::EmbeddedCluster.new(1)
      cluster.create_topic("t", 2)
      poller = Native::Poller.new("stressed")
      options = { "bootstrap.servers" => cluster.bootstrap_servers, "log_level" => "0", "linger.ms" => "1" }
      writer = Native::Producer.new("w", options, { poller: poller, max_time: 10 })
      2.times { |number| writer.produce("t", "x", nil, number, nil, nil, 60).wait(timeout: 60) }
      assert_equal [2, true], [writer.partition_count("t", 60), writer.flush(60)]
      reader = Native::Subscription.new("r", { **options.except("linger.ms"), "group.id" => "g" }, { poller: poller })
      reader.assign([["t", 0, 0], ["t", 1, 0]])
      eventually(30, "a batch") { reader.poll(1)&.first == :batch }
      assert_equal [0, 1], reader.watermarks("t", 0, 60)
      assert_nil reader.seek("t", 0, 0, 60)
      assert_equal [[["t", 0], ["t", 1]], 0], [reader.assignment.sort, reader.position("t", 0)]
      admin = Native::Admin.new("a", options, { poller: poller })
      assert_equal [["t", 0, 1, -1, nil]], admin.request(:offsets, [[["t", 0, -1]], true], 60)
      assert_equal [["t"], true], [admin.topics(60), admin.close(60)]
      assert_equal [true, 0, 0], [reader.close(60), writer.close(60), poller.clients],
                   "close of the reader, close of the writer, clients of the poller"
      assert_equal false, poller.next_events(0, 10).nil?
      cluster.close
    end
  end

  def test_transactions_and_tokens_under_stress
    writer = producer("transactional.id" => NativeKit.name("tx"))
    topic = new_topic
    reader = subscription
    reader.subscribe([topic])
    eventually(20, "the assignment") { reader.poll(1)&.first == :assigned }
    stressed do
      2.times do
        writer.begin_transaction(60)
        writer.produce(topic, "x", nil, 0, nil, nil, 5)
        writer.send_offsets([[topic, 0, 1]], reader, 60)
        writer.commit_transaction(60)
      end
      writer.begin_transaction(60)
      writer.produce(topic, "x", nil, 0, nil, nil, 5)
      writer.abort_transaction(60, 0)
      # Refused: these clients log in without one.
      assert_raises(Pelton::KafkaError) { writer.set_oauth_token("token", 5_000_000_000_000, "me", { "a" => "b" }) }
      assert_raises(Pelton::KafkaError) { writer.set_oauth_failure("no") }
    end
  end

  # Reading a Time finer than a nanosecond makes objects, so a compaction may move the Strings of rows read before.
  def test_rows_of_a_batch_survive_compaction_by_their_own_times
    topic = new_topic
    writer = producer
    compacting = GC.auto_compact
    GC.auto_compact = true
    5.times do
      holes = Array.new(20_000) { "x" * rand(1..20) }
      rows = Array.new(2000) do |index|
        { topic: topic.dup, payload: "payload #{index}", timestamp: Time.at(1_700_000_000.123 + index) }
      end
      holes.clear
      writer.produce_many(rows, 60).wait(timeout: 60)
    end
    expected = Array.new(10_000) { |index| "payload #{index % 2000}" }
    assert_equal expected, messages(topic, 10_000).map(&:raw_payload)
  ensure
    GC.auto_compact = compacting
  end

  def test_waits_under_stress
    topic = new_topic
    writer = producer("queue.buffering.max.messages" => "3")
    quiet = subscription
    stressed do
      30.times { writer.produce(topic, "x", nil, 0, nil, nil, 10) }
      assert_equal true, writer.flush(60)
      assert_nil quiet.poll(0.01)
      assert_raises(Timeout::Error) { Timeout.timeout(0.05) { quiet.poll(10) } }
    end
  end

  def test_kept_objects_survive_compaction
    documents = Array.new(300) { |i| "{\"i\":#{i},\"s\":\"string #{i}\",\"a\":[\"#{i}\"]}" }
    topic = topic_of_all(documents)
    found = messages(topic, 300, options: { decode: { topic => :json } })
    payloads = found.first(150).map(&:payload)
    before = payloads.map(&:dup)
    compact
    assert_equal before, found.first(150).map(&:payload)
    found.first(150).zip(payloads) { |message, payload| assert_same payload, message.payload }
    moving do
      found.last(20).zip(documents.last(20)) do |message, document|
        assert_equal JSON.parse(document), message.payload
        assert_equal document, message.raw_payload
      end
    end
    compact
    assert_equal documents.map { |document| JSON.parse(document) }, found.map(&:payload)
  end

  def test_building_while_everything_moves
    document = "{#{Array.new(40) { |i| "\"key #{i}\":[#{i},\"value #{i}\",{\"deep\":\"#{"x" * i}\"}]" }.join(",")}}"
    expected = JSON.parse(document)
    topic = topic_of_all([document] * 3)
    found = messages(topic, 3)
    moving { found.each { |message| assert_equal expected, message.payload } }
  end

  def test_references_are_right_after_moving_everything_twice
    skip "no GC.verify_compaction_references" unless GC.respond_to?(:verify_compaction_references)
    _, output = in_process(<<~RUBY, limit: 120)
      producer.produce_many([{ topic: "t", payload: '{"a":[1,"x"]}', key: "k", partition: 0 }] * 50, 5).wait(timeout: 60)
      reader = subscription
      reader.assign([["t", 0, 0]])
      batches = []
      batches << reader.poll(60)[1] until batches.compact.sum(&:size) == 50
      found = batches.flat_map(&:messages)
      found.each_with_index { |message, i| message.payload if i.even? }
      begin
        options = GC.method(:verify_compaction_references).parameters.map(&:last)
        GC.verify_compaction_references(toward: :empty, **(options.include?(:expand_heap) ? { expand_heap: true } : {}))
      rescue NotImplementedError
        say "no compaction here"
      end
      found.each { |message| raise "wrong" unless message.payload == { "a" => [1, "x"] } && message.key == "k" }
      say "right"
    RUBY
    assert_match(/^right$/, output)
  end

  def test_a_young_payload_of_an_old_message_survives
    topic = topic_of_all(Array.new(50) { |i| "{\"i\":#{i}}" })
    found = messages(topic, 50)
    4.times { GC.start }
    payloads = found.map { |message| message.payload.object_id }
    4.times { GC.start(full_mark: false) }
    Array.new(10_000) { |i| "garbage #{i}" }
    assert_equal payloads, found.map { |message| message.payload.object_id }
    assert_equal (0...50).to_a, found.map { |message| message.payload["i"] }
  end

  def test_objects_report_their_size
    require "objspace"
    batch = batches(topic_of("1"), 1).first
    delivery = producer.produce_many([{ topic: "t", payload: "1" }], 1)
    [producer, subscription, batch, batch.messages.first, delivery].each do |object|
      assert_operator ObjectSpace.memsize_of(object), :>, 0
    end
  end

  # The collector is told of native bytes, so batches that nobody keeps do not pile up.
  def test_dropped_batches_do_not_pile_up
    payload = "x" * 50_000
    topic = topic_of_all(Array.new(60) { payload })
    most = 0
    70.times do
      batches(topic, 60) # neither read nor released
      @clients.pop.close(5)
      most = [most, ObjectSpace.each_object(Pelton::Batch).sum(&:bytes)].max
    end
    assert_operator most, :<, 130_000_000, "of 210 MB that came"
  end

  private

  def stressed
    GC.start
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  def compact
    3.times { GC.start }
    GC.compact
  rescue NotImplementedError
    skip "no compaction on this platform"
  end

  # Every major collection compacts, and collections are frequent.
  def moving(&block)
    GC.auto_compact = true
    stressed(&block)
  rescue NotImplementedError
    skip "no compaction on this platform"
  ensure
    GC.auto_compact = false
  end
end
