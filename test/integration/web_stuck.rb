# frozen_string_literal: true

require "support/scenario"
require "pelton/web"

# The dashboard says why partitions of a group do not get on: its consumer paused one, one fails again and again, one
# has an open transaction, a call of another one does not return, and one has no owner.
#
# once: the states are Pelton's, whatever the Ruby

Scenario.run do
  # A look asks about each group, and on the shared broker other scenarios leave hundreds.
  self.bootstrap = TestBroker.start.bootstrap
  name = topic(partitions: 5)
  group = unique("stuck")
  gate = Thread::Queue.new
  reader = consumer do
    raise ArgumentError, "no total" if partition == 1 && messages.last.offset.positive?

    mark_as_consumed(messages.last) && pause if partition.zero?
    gate.pop if partition == 4 && messages.last.offset.positive?
  end
  all = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }, report_topic: topic(name: unique("reports")),
            report_interval: 0.3) do
    topic(name, to: reader) do
      retries 100
      backoff 600..600
      max_messages 1
      long_call 1
    end
  end
  web = Pelton::Web.new(all)
  page = lambda do |path, query = ""|
    _, _, body = web.call({ "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => query,
                            "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost", "SCRIPT_NAME" => "" })
    body.join.gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")
  end
  rows = lambda do |id|
    text = page.call("/group", "id=#{id}")
    (0..4).to_h { |number| [number, text[%r{#{name}/#{number} (.*?) (?:#{name}/|Members)}, 1]] }
  end
  shows = lambda do |id, number, state|
    found = nil
    eventually(60, -> { "#{number} #{state}: #{found}" }) do
      web.history.look
      (found = rows.call(id)[number]).to_s.match?(/#{state}\z/)
    end
  end
  all.start
  # One message of each partition is done, and there is a commit.
  all.producer.produce_many_sync(Array.new(5) { |number| { topic: name, partition: number, payload: "x" } })
  writer = app(kafka: { "transactional.id" => unique("writer"), "transaction.timeout.ms" => 600_000 })
  writer.producer.transaction do |tx|
    tx.produce_sync(topic: name, partition: 2, payload: "x")
    more = [0, 1, 2, 3, 4].flat_map { |number| [{ topic: name, partition: number, payload: "y" }] * 2 }
    all.producer.produce_many_sync(more)
    { 0 => "paused", 1 => "failing", 2 => "behind an open transaction", 3 => "fine",
      4 => /long call, \S+ s offset 1/ }.each do |number, state|
      shows.call(group, number, state)
    end
    overview = nil
    eventually(30, -> { overview }) { (overview = page.call("/")).include?("#{group}: #{name}/1 is failing") }
    check(!overview.include?("#{name}/0 is"), overview)
    check(overview.match?(%r{#{group}: #{name}/4 has been in one call for \S+ s, at offset 1 }), overview)
  end
  shows.call(group, 2, "fine")
  nobody = unique("nobody")
  all.admin.alter_group_offsets(nobody, { [name, 3] => 1 })
  shows.call(nobody, 3, "no owner")
  web.close
  gate.close
  equal([ArgumentError], events(all, "error.occurred").map { |event| event[:error].class }.uniq, "errors")
end
