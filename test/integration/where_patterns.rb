# frozen_string_literal: true

# once: filters are native, whatever the Ruby

require "support/scenario"

# `where` with regular expressions on a real broker: native threads match what they know, Ruby matches the rest, and no
# text makes either take long. What Ruby cannot decide within a second reaches `consume`.

ORDERS = /\Aorder\.(created|paid)$/
BACKTRACKING = /^(a+)+$/ # exponential in Ruby 3.1
RUBY_ONLY = /\A(?!x)(b+)+\z/ # look-ahead; on Ruby 3.1 and 3.2 exponential, too
EVIL = 50_000
TEXTS = ["order.created", "order.paid", "order.paid\n", "order.paid\nmore", "invoice.paid", "ORDER.PAID", "order.", "",
         "a" * 30, "#{"a" * EVIL}!", "#{"a" * EVIL}\n!", "#{"a" * 40}!\n", "é", "order.paid é"].freeze
HEADERS = ["b", "bb", "x", "", "b" * 40].freeze

Scenario.run do
  native, ruby = Array.new(2) { topic }
  check(Pelton::Native.knows_pattern?(ORDERS) && Pelton::Native.knows_pattern?(BACKTRACKING), "native patterns")
  check(!Pelton::Native.knows_pattern?(RUBY_ONLY), "a pattern that only Ruby knows")
  # Ruby 3.1 and 3.2 do not match it in linear time.
  slow = !Regexp.respond_to?(:linear_time?) || !Regexp.linear_time?(RUBY_ONLY)

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [message.topic, message.offset] } }
  group = unique("patterns")
  app = app(group: group) do
    topic native, to: reader do
      where("type").matches(ORDERS).or(where("type").matches(BACKTRACKING))
    end
    topic ruby, to: reader do
      where.header("kind").matches(RUBY_ONLY)
    end
  end

  app.producer.produce_many_sync(TEXTS.map { |text| { topic: native, payload: { type: text }.to_json } })
  app.producer.produce_many_sync(HEADERS.map { |text| { topic: ruby, payload: "{}", headers: { "kind" => text } } })
  app.producer.produce_sync(topic: ruby, payload: "{}", headers: { "kind" => "#{"b" * 200}!" })
  app.producer.produce_sync(topic: ruby, payload: "{}", headers: { "kind" => "b" })
  # What Ruby would say, if it had the time for the long ones.
  wanted = TEXTS.each_index.select { |at| TEXTS[at].match?(ORDERS) || TEXTS[at].match?(/^a+$/) }
  passing = HEADERS.each_index.select { |at| HEADERS[at].match?(RUBY_ONLY) } + [HEADERS.size + 1]
  passing << HEADERS.size if slow # it reaches `consume`, since Ruby did not decide
  wanted = wanted.map { |at| [native, at] } + passing.map { |at| [ruby, at] }

  app.start
  equal(wanted.sort, take(seen, wanted.size).sort, "messages that pass")
  eventually(20, "all is committed") do
    committed(group, native, 1) == [TEXTS.size] && committed(group, ruby, 1) == [HEADERS.size + 2]
  end
  equal(true, seen.empty?, "nothing else came")
  errors = events(app, "error.occurred").map { |event| [event[:error].class, event[:topic], event[:offset]] }
  equal(slow ? [[Pelton::PatternTimeout, ruby, HEADERS.size]] : [], errors, "errors")
  equal(true, app.stop, "stop")
end
