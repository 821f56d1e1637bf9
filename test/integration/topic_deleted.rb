# frozen_string_literal: true

require "support/scenario"

# A topic is deleted while it is consumed: its consumers end with `revoked`, the other topic goes on, and when the topic
# is made again it is consumed again from its beginning. Nothing is repeated: librdkafka would go on trying to commit
# what was marked of it, and its member be thrown out when the group had its next generation by then.

Scenario.run do
  gone = topic(partitions: 2)
  stays = topic(partitions: 2)
  seen = Thread::Queue.new
  ends = Thread::Queue.new
  book = ledger
  sent = Hash.new(0)
  # A topic that is made again begins anew, as its keys do.
  life = { gone => 1, stays => 1 }
  reader = consumer do
    messages.each do |message|
      book.processed(object_id.to_s, "#{topic}/#{life[topic]}/#{partition}", message.offset)
      seen << [topic, partition, message.raw_payload]
    end
  end
  reader.define_method(:revoked) { ends << [:revoked, topic, partition] }
  reader.define_method(:shutdown) { ends << [:shutdown, topic, partition] }
  quick = { "topic.metadata.refresh.interval.ms" => 300, "partition.assignment.strategy" => "cooperative-sticky",
            "auto.commit.interval.ms" => 60_000 } # one on its way in this moment would be such a try, too
  server = app(group: group = unique("group"), kafka: quick) do
    topic(gone, to: reader)
    topic(stays, to: reader)
  end
  server.start
  writer = app(kafka: quick)
  number = 0
  send = lambda do |*names|
    number += 1
    rows = names.product([0, 1]).map { |name, place| { topic: name, partition: place, payload: number.to_s } }
    writer.producer.produce_many_sync(rows)
    rows.each { |row| sent["#{row[:topic]}/#{life[row[:topic]]}/#{row[:partition]}"] += 1 }
    wanted = rows.map { |row| row.values_at(:topic, :partition, :payload) }
    eventually(20, -> { "round #{number}, still #{wanted}" }) { (wanted -= take(seen, seen.size)).empty? }
  end
  5.times { send.(gone, stays) }
  delete_topic(gone)
  eventually(20, "the end of its consumers") do
    send.(stays)
    ends.size == 2
  end
  equal([[:revoked, gone, 0], [:revoked, gone, 1]], take(ends, 2).sort, "what ended")
  5.times { send.(stays) }
  eventually(20, "a word on it") { events(server, "error.occurred").any? }
  told = events(server, "error.occurred").map { |event| event[:error].name }.uniq
  equal([:UNKNOWN_TOPIC_OR_PART], told, "errors that are told")

  life[gone] = 2
  topic(partitions: 2, name: gone)
  5.times { send.(gone, stays) }
  equal(true, server.stop, "stop")
  ended = take(ends, ends.size)
  equal([gone, stays].product([0, 1]).map { |place| [:shutdown, *place] }.sort, ended.sort, "what ended")
  equal([5, 5], committed(group, gone, 2), "committed of the new topic")
  equal([number, number], committed(group, stays, 2), "committed of the topic that stayed")
  equal(0, seen.size, "anything else")
  in_order(book, sent)
end
