# frozen_string_literal: true

require "support/scenario"

# Patterns of topics, matched by librdkafka (classic groups) and by the broker (KIP-848): the same topics, also
# those that are made later; the route is that of the name, else of the first pattern. A pattern that matches nothing
# costs no CPU.
#
# once: it is librdkafka and the broker who match

Scenario.run do
  mark = unique("p")
  seen = Thread::Queue.new
  saying = lambda do |protocol, word|
    consumer { messages.each { |message| seen << [protocol, word, topic, message.payload["n"]] } }
  end
  made = ->(*words) { words.each { |word| topic(name: "#{mark}.#{word}") } }
  made.("orders.eu", "orders.us", "x.orders.eu", "payments")
  protocols = { "classic" => {}, "consumer" => { "group.protocol" => "consumer" } }
  apps = protocols.map do |protocol, kafka|
    app(group: unique(protocol), kafka: { "topic.metadata.refresh.interval.ms" => 500, **kafka }) do
      defaults { decode :json }
      topic(/^#{mark}\.orders\.\w+$/, to: saying.(protocol, :first))
      topic(/#{mark}\.(?:orders|refunds)\.us|#{mark}\.late/, to: saying.(protocol, :second))
      topic("#{mark}.orders.eu", to: saying.(protocol, :name))
    end.tap(&:start)
  end
  producer = apps.first.producer
  number = 0
  say = lambda do |*words|
    number += 1
    words.each { |word| producer.produce_sync(topic: "#{mark}.#{word}", payload: %({"n":#{number}})) }
  end
  heard = lambda do |expected|
    all = take(seen, expected.size * 2, 40).group_by(&:first)
    protocols.each_key do |protocol|
      rows = all.fetch(protocol, []).map { |_, word, name, n| [word, name.delete_prefix("#{mark}."), n] }
      equal(expected.sort, rows.sort, "what the #{protocol} group consumed")
    end
  end
  say.("orders.eu", "orders.us", "x.orders.eu", "payments")
  heard.([[:name, "orders.eu", 1], [:first, "orders.us", 1]])
  made.("orders.late", "refunds.us", "late.at.all", "orders.much.later")
  say.("orders.late", "refunds.us", "late.at.all", "orders.much.later")
  heard.([[:first, "orders.late", 2], [:second, "refunds.us", 2], [:second, "late.at.all", 2]])
  apps.each { |app| check(app.stop, "a stop in order") }
  check(seen.empty?, "more was consumed: #{seen.size}")

  idle = protocols.map do |protocol, kafka|
    nobody = saying.(protocol, :nobody)
    app(group: unique("idle"), kafka: kafka) { topic(/^#{mark}-nothing\./, to: nobody) }.tap(&:start)
  end
  used = nil
  eventually(20, -> { "two groups without topics took #{used} s of CPU in 3 s" }) do # the start of both takes some, too
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    work(3)
    (used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before) < 1
  end
  idle.each { |app| check(app.stop, "a stop in order") }
end
