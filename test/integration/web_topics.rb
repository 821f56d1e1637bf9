# frozen_string_literal: true

require "support/scenario"
require "pelton/web"

# What the dashboard knows of a topic without any report of a process: about how large it is, and what it got in a day
# and a week, from Kafka's offsets; also after its oldest messages were deleted, and with a transaction that is open.
#
# once: the numbers are Kafka's

Scenario.run do
  name, other, open = [2, 1, 1].map { |partitions| topic(partitions: partitions) }
  all = app(kafka: { "compression.type" => "gzip" })
  now = Pelton::Clock.wall.to_i
  ahead = 30 # a quarter of an hour or an hour may end during the scenario
  minutes = (3 * 24 * 60) + ahead
  rows = Array.new(minutes) do |minute|
    { topic: name, partition: 0, key: "key", payload: "x" * 90, headers: { "trace" => "42" },
      timestamp: Time.at(now - (60 * (minutes - ahead - minute))) }
  end
  all.producer.produce_many_sync(rows)
  all.producer.produce_many_sync(Array.new(50) { |number| { topic: other, payload: "y" * (number.even? ? 10 : 30) } })
  writer = app(kafka: { "transactional.id" => unique("writer") })

  known = lambda do |web, *names|
    found = nil
    eventually(60, -> { "sizes of #{names}: #{found}" }) { (found = web.sizes.of(names)).size == names.size }
    names.map { |asked| found[asked].to_h.values_at(:bytes, :messages) }
  end
  points = lambda do |web, range|
    trends = web.topic_trends.of(name)
    eventually(60, -> { "#{range}: #{trends.look(range)}" }) { trends.look(range).complete? }
    trends.series(range, :produced).points
  end
  minute = (1 / 60.0).round(6)
  rates = ->(list) { list.map { |_, value| value.round(6) } }

  web = Pelton::Web.new(all)
  writer.producer.transaction do |tx|
    tx.produce_sync(topic: open, payload: "z" * 7)
    equal([[minutes * 100, 60], [1000, 50], [7, 1]], known.call(web, name, other, open), "bytes and messages read")
  end
  equal([96, [minute]], rates.call(points.call(web, "24h")).then { |list| [list.size, list.uniq] }, "a day")
  week = rates.call(points.call(web, "7d"))
  # Four days with nothing, an hour in which it began, the rest of three days.
  equal([168, 0.0, minute], [week.size, week.first, week.last], "a week")
  check(week.count(minute).between?(71, 72), "hours with a message each minute: #{week}")
  web.close

  all.admin.delete_records({ [name, 0] => 24 * 60 })
  web = Pelton::Web.new(all)
  equal([[(minutes - (24 * 60)) * 100, 60]], known.call(web, name), "the size without the first day")
  week = points.call(web, "7d")
  equal([minute], rates.call(week).uniq, "what is known of a week")
  check(week.size.between?(46, 48), "the rest is unknown: #{week.size} hours")

  missing = unique("missing")
  web.sizes.of([missing])
  eventually(60, "the end of the reading") { Pelton::Threads.list.map(&:name).none?("pelton.web.sizes") }
  equal({}, web.sizes.of([missing]), "the size of a topic that does not exist")
  eventually(60, "its problem") { web.topic_trends.of(missing).look("24h").problem }
  web.close
  equal([], events(all, "error.occurred").map { |event| event[:error] }, "errors")
end
