# How long does the dashboard take to make a page for 50 processes with 200 partitions each?
# frozen_string_literal: true

require_relative "support"
require "pelton/web"

PROCESSES = 50
PARTITIONS = 200 # of each process; a topic and a group for each
HOUR = Bench.some(3600) # seconds of history

# A cluster, and what pages ask Pelton::Admin.
class FakeAdmin
  NAMES = Array.new(PROCESSES) { |number| "topic-#{number}" }.freeze

  def initialize
    @rounds = 0
    partition = Pelton::Admin::Partition
    @topics = NAMES.to_h do |name|
      all = Array.new(PARTITIONS) do |one|
        partition.new(number: one, leader: 1, replicas: [1, 2, 3], in_sync: [1, 2, 3])
      end
      [name, Pelton::Admin::TopicDescription.new(name: name, internal: false, partitions: all)]
    end
    @groups = NAMES.to_h { |name| ["group-of-#{name}", group(name)] }
    @cluster = Pelton::Admin::ClusterDescription.new(brokers: [])
  end

  # What the cluster says at this time.
  def look(now)
    @rounds += 1
    commits = @groups.transform_values { |group| commits(group.members.first.partitions) }
    places = @topics.each_value.flat_map { |topic| topic.partitions.map { |one| [topic.name, one.number] } }
    ends = places.to_h { |place| [place, @rounds * 10] }
    Pelton::Web::Observation.new(cluster: @cluster, topics: @topics, ends: ends, groups: @groups, commits: commits,
                                 at: now)
  end

  def config(**) = {}
  def offsets(places, **) = places.transform_values { |position| position == :beginning ? 0 : @rounds * 10 }

  private

  def commits(places) = places.to_h { |place| [place, [(@rounds * 10) - (place.last % 7), 0].max] }

  def group(name)
    places = Array.new(PARTITIONS) { |number| [name, number] }
    member = Pelton::Admin::Member.new(id: "m-#{name}", client_id: "shop", host: "/10.0.0.1", partitions: places)
    Pelton::Admin::GroupDescription.new(id: "group-of-#{name}", state: :stable, members: [member])
  end
end

JOB_CLASSES = Array.new(50) { |one| { class: "Job#{one}", count: 9, failed: 1, seconds: 4.5, slowest: 1.5 } }.freeze

# What a process reports.
def report(number, at)
  rows = Array.new(PARTITIONS) { |one| [one, one % 7, (one % 50).zero? ? "failing" : "idle"] }
  job = { group: "g", consumer: "OrdersConsumer", topic: "t", partition: 0, kind: "consume", since: at - 1,
          messages: 5 }
  error = { at: at - 1, source: "consumer.consume", class: "KeyError", message: "no total" }
  facts = { version: 1, id: "web-#{number}:1:1", at: at, started_at: at - 3600, interval: 5, host: "web-#{number}",
            pid: 1, process: nil, name: "shop", pelton: "0", ruby: "3", state: "running", groups: ["g"], threads: 20,
            rss: 2**28, workers: 5, jobs: { running: 5, waiting: 9, aside: 0 }, running: [job] * 5,
            rates: { in: { "g" => 90.5 }, out: 40, errors: 0.2 }, left_out: 0, settings: {}, errors: [error] * 10,
            job_classes: JOB_CLASSES, partitions: { "g" => { "topic-#{number}" => rows } } }
  Pelton::Reports::Report.parse(JSON.generate(facts))
end

# A dashboard that has known the cluster for a while.
def dashboard
  app = Pelton::App.new
  admin = FakeAdmin.new
  app.define_singleton_method(:admin) { admin }
  web = Pelton::Web.new(app)
  web.history.define_singleton_method(:start) { nil }
  web.reports.define_singleton_method(:start) { @complete = true }
  now = Pelton::Clock.wall
  (-HOUR..0).step(30) { |ago| web.history.send(:remember, admin.look(now + ago)) }
  (-HOUR..0).step(10) { |ago| PROCESSES.times { |one| web.reports.add(report(one, now + ago)) } }
  web
end

def milliseconds(web, path, query)
  environment = { "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => query,
                  "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost" }
  seconds = Array.new(5) do
    Bench.seconds { web.call(environment).then { |status, _, body| raise body.join unless status == 200 } }
  end
  Bench.median(seconds) * 1000
end

Bench.measure("dashboard") do |bench|
  web = dashboard
  { "Overview" => ["/"], "Groups" => ["/groups"], "a group" => ["/group", "id=group-of-topic-0"],
    "Topics" => ["/topics"], "a topic" => ["/topic", "name=topic-0"], "Processes" => ["/processes"],
    "a process" => ["/process", "id=web-1%3A1%3A1"], "Errors" => ["/errors"],
    "Settings" => ["/settings", "id=web-1%3A1%3A1"] }.each do |name, (path, query)|
    bench.case(name, "ms") { milliseconds(web, path, query.to_s) }
  end
end
