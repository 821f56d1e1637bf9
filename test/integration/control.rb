# frozen_string_literal: true

require "support/scenario"

# Filter, expire, delay, throttle, pause, seek, ticks and the end of a partition on a real broker, a topic each in one
# group: none delays another one, all of it costs no rebalance, and what is committed is what was done.
#
# once: librdkafka and the broker have to agree with us, whatever the Ruby

Scenario.run do
  seen = Hash.new { |all, word| all[word] = Thread::Queue.new }
  words = %i[filter expire delay throttle pause rewind moment silence].each { |word| seen[word] }
  topics = words.to_h { |word| [word, topic(name: unique(word.to_s))] }
  tell = ->(word, what) { seen.fetch(word) << what }

  plain = ->(word) { consumer { messages.each { |message| tell.(word, message.offset) } } }
  aged = consumer { messages.each { |message| tell.(:delay, Time.now.to_f - (message.timestamp_ms / 1000.0)) } }
  timed = consumer { messages.each { |message| tell.(:throttle, [message.offset, Pelton::Clock.now]) } }
  first_looked_at = nil # when the first window has not begun yet
  pausing = consumer do
    messages.each do |message|
      break pause(1.5) if message.offset == 3 && (@pauses = @pauses.to_i + 1) == 1

      tell.(:pause, message.offset)
      mark_as_consumed(message)
    end
  end
  rewinding = consumer do
    messages.each do |message|
      next tell.(:rewind, message.offset) unless message.offset == 8 && !@sought

      @sought = true
      break tell.(:rewind, seek(2))
    end
  end
  base = ((Time.now.to_f - 10_000) * 1000).round
  moment = Class.new(Pelton::Consumer) do
    define_method(:assigned) { pause }
    define_method(:tick) do
      next if @sought

      @sought = true
      tell.(:moment, seek(Time.at((base + 4_000) / 1000r)))
      resume
    end
    define_method(:consume) { messages.each { |message| tell.(:moment, message.offset) } }
  end
  silent = Class.new(Pelton::Consumer) do
    define_method(:consume) { messages.each { |message| tell.(:silence, message.offset) } }
    define_method(:tick) { tell.(:silence, :tick) if (@ticks = @ticks.to_i + 1) <= 2 }
    define_method(:reached_end) { tell.(:silence, :end) }
  end

  all = app(group: unique("control"), concurrency: 3) do
    topic(topics[:filter], to: plain.(:filter)) { filter { |message| (message.offset % 3).zero? } }
    topic(topics[:expire], to: plain.(:expire)) { expire_after 3600 }
    topic(topics[:delay], to: aged) { delay 2 }
    topic(topics[:throttle], to: timed) do
      filter { |_| first_looked_at ||= Pelton::Clock.now }
      throttle 4, every: 1
    end
    topic topics[:pause], to: pausing
    topic(topics[:rewind], to: rewinding) { max_messages 3 }
    topic(topics[:moment], to: moment) { tick_every 0.2 }
    topic(topics[:silence], to: silent) { tick_every 0.3 }
  end
  producer = all.producer
  send = lambda do |word, count, **more|
    rows = Array.new(count) do |number|
      stamp = more[:step] ? { timestamp: more[:base] + (number * more[:step]) } : {}
      { topic: topics[word], payload: number.to_s, **stamp }
    end
    producer.produce_many_sync(rows)
  end
  %i[filter throttle pause rewind].each { |word| send.(word, 10) }
  send.(:expire, 4, base: base, step: 3_000) # 10,000 s to 9,991 s old
  send.(:expire, 2)
  send.(:moment, 10, base: base, step: 1_000)
  all.start
  eventually(40, "the assignment") { events(all, "partition.assigned").size == words.size }
  send.(:delay, 3)

  equal([0, 3, 6, 9], take(seen[:filter], 4), "filtered")
  equal([4, 5], take(seen[:expire], 2), "not expired")
  equal([*0..9], take(seen[:pause], 10), "with a pause in it")
  equal([*0..7, true, *2..9], take(seen[:rewind], 17), "with a rewind")
  equal([true, *4..9], take(seen[:moment], 7), "from a point of time on")
  ages = take(seen[:delay], 3)
  check(ages.min >= 2, "delayed by #{ages}")
  times = take(seen[:throttle], 10)
  equal([*0..9], times.map(&:first), "throttled")
  check(times.last.last - first_looked_at >= 2, "three windows took #{times.last.last - first_looked_at} s")
  quiet = take(seen[:silence], 3)
  equal([:end, :tick, :tick], quiet.sort, "without messages")
  send.(:silence, 1)
  equal([0, :end], take(seen[:silence], 2), "and with one")
  work(0.3)
  equal({}, seen.transform_values(&:size).reject { |_, size| size.zero? }, "too much")
  check(all.stop, "a stop in order: #{all.server.unfinished_work}")
  equal([], events(all, "partition.revoked").to_a, "revoked")
  equal([], events(all, "error.occurred").map { |event| event[:error] }, "errors")
  ends = { filter: 10, expire: 6, delay: 3, throttle: 10, pause: 10, rewind: 10, moment: 10, silence: 1 }
  equal(ends, words.to_h { |word| [word, committed(all.config.group_id, topics[word], 1).first] }, "committed")

  # A rewind is committed at once: a restart begins there.
  group = unique("rewind")
  back = consumer do
    tell.(:rewind, seek(3)) if messages.last.offset == 9
    pause if messages.last.offset == 9
  end
  name = topics[:rewind]
  app = app(group: group) { topic(name, to: back) }
  app.start
  equal([true], take(seen[:rewind], 1), "sought")
  eventually(20, "the rewind to be committed") { committed(group, name, 1) == [3] }
  check(app.stop, "a stop in order")
  equal([3], committed(group, name, 1), "committed at the end")
end
