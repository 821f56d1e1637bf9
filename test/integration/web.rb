# frozen_string_literal: true

require "support/scenario"
require "net/http"
require "pelton/web/http_server"

# The dashboard over HTTP while a group consumes one of two partitions and is held in the other; and after it stopped.
# Its process reports. What transactions leave in a partition.
#
# once: the numbers are Kafka's

Scenario.run do
  # A look asks about each group, and on the shared broker other scenarios leave hundreds.
  self.bootstrap = TestBroker.start.bootstrap
  name = topic(partitions: 2)
  group = unique("web")
  gate = Thread::Queue.new
  reader = consumer { gate.pop if partition == 1 && messages.last.offset > 4 }
  reports = topic(name: unique("reports"))
  all = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }, report_topic: reports,
            report_interval: 0.3) { topic(name, to: reader) }
  declared = name
  all.topics { topic declared, partitions: 4 }
  web = Pelton::Web.new(all)
  server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: 0, bus: all.notifications)
  # With the further pages of a list.
  get = lambda do |path, page: 1, **query|
    response = Net::HTTP.get_response("127.0.0.1", "#{path}?#{URI.encode_www_form(page: page, **query)}", server.port)
    check(%w[200 404].include?(response.code), "#{path}: #{response.code}")
    text = response.body.force_encoding(Encoding::UTF_8).gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")
    text.include?(" Next ") ? text + get.call(path, page: page + 1, **query) : text
  end
  await = lambda do |what, pattern, path, **query|
    text = nil
    eventually(40, -> { "#{what}: #{text}" }) do
      web.history.look
      (text = get.call(path, **query)).match?(pattern)
    end
  end
  rows = ->(count) { [0, 1].flat_map { |number| [{ topic: name, partition: number, payload: "x" }] * count } }

  all.producer.produce_many_sync(rows.call(5))
  all.start
  await.call("the first messages are done", %r{#{name}/1 \S+ 5 5 0 }, "/group", id: group)
  all.producer.produce_many_sync(rows.call(7))
  await.call("one partition lags", %r{#{name}/0 \S+ 12 12 0 .*#{name}/1 \S+ 5 12 7 }, "/group", id: group)
  await.call("the list of groups adds up", /#{group} stable 1 7 /, "/groups")
  check(get.call("/").include?("Needs attention"), "the overview")
  await.call("offsets of the topic", /Offsets 24 .*partitions 2 -&gt; 4/, "/topic", name: name)
  check(get.call("/topics").include?(name), "the list of topics")
  await.call("the process has a job", %r{Live 1 of 1 process .*Running jobs .*#{name}/1 5 consume }, "/processes")
  # Another dashboard on the same topic of reports: each reads all of it.
  twin = Pelton::Web.new(all, allow_remote: true)
  eventually(40, -> { twin.reports.problem.inspect }) { twin.reports.latest.map(&:id) == web.reports.latest.map(&:id) }
  twin.close
  id = web.reports.latest.first.id
  await.call("its lag", %r{Lag, messages 7 .*#{name}/1 #{group} running 7 }, "/process", id: id)
  await.call("its settings", /As \S+ reported at .* report_interval 0\.3 5 s set /, "/settings", id: id)
  gate.close # opens it
  await.call("nothing waits", /#{group} stable 1 0 /, "/groups")

  # --- the end of a transaction is no message that waits; a message in it is one, and so is an aborted one ---

  ended = topic(partitions: 2)
  idle, behind = %w[idle behind].map { |word| unique(word) }
  writer = app(kafka: { "transactional.id" => unique("writer") })
  writer.producer.transaction { |tx| tx.produce_async(topic: ended, partition: 0, payload: "x") }
  writer.producer.transaction do |tx|
    tx.produce_sync(topic: ended, partition: 1, payload: "x")
    raise Pelton::AbortTransaction
  end
  all.admin.alter_group_offsets(idle, { [ended, 0] => 1, [ended, 1] => 0 })
  all.admin.alter_group_offsets(behind, { [ended, 0] => 0 })
  await.call("the end of a transaction", %r{#{ended}/0 \S+ 1 2 0 .*#{ended}/1 \S+ 0 2 2 }, "/group", id: idle)
  await.call("a message in a transaction", %r{#{ended}/0 \S+ 0 2 2 }, "/group", id: behind)
  await.call("only messages count", /#{idle} empty 0 2 /, "/groups")
  all.producer.produce_sync(topic: ended, partition: 0, payload: "y")
  await.call("a message behind it", %r{#{ended}/0 \S+ 1 3 2 }, "/group", id: idle)

  # --- what waited before the dashboard began to look ---

  late = topic
  stuck = unique("stuck")
  [3 * 86_400, 2 * 3600, 0].each do |ago|
    all.producer.produce_sync(topic: late, payload: "z", timestamp: Time.now - ago)
  end
  all.admin.alter_group_offsets(stuck, { [late, 0] => 1 })
  await.call("a message of two hours ago waits", %r{#{late}/0 \S+ 1 3 2 (1 h 5\d min|2 h)}, "/group", id: stuck)

  equal(true, all.stop, "stop")
  await.call("the group is empty", /No process consumes with this group now.*left/, "/group", id: group)
  await.call("the process says that it stopped", /Live 0 of 1 process .* stopped /, "/processes")
  equal(404, Net::HTTP.get_response("127.0.0.1", "/process?id=x", server.port).code.to_i, "an unknown process")
  equal([], events(all, "error.occurred").map { |event| event[:error] }, "errors")
  server.close
  web.close
end
