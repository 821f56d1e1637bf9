# frozen_string_literal: true

require "json"
require "pelton"
require "pelton/web"

# 50 processes with 200 partitions each, without a Kafka: a dashboard that has known them for an hour.
#   web = LargeCluster.dashboard
module LargeCluster
  PROCESSES = 50
  PARTITIONS = 200 # of each process; a topic and a group for each
  NAMES = Array.new(PROCESSES) { |number| "topic-#{number}" }.freeze
  JOB_CLASSES = Array.new(50) do |number|
    { class: "Job#{number}", count: 9, failed: 1, seconds: 4.5, slowest: 1.5 }
  end.freeze

  # The cluster, and what pages ask Pelton::Admin.
  class Admin
    def initialize
      @rounds = 0
      partition = Pelton::Admin::Partition
      @topics = NAMES.to_h do |name|
        all = Array.new(PARTITIONS) do |number|
          partition.new(number: number, leader: 1, replicas: [1, 2, 3], in_sync: [1, 2, 3])
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
      places = @topics.each_value.flat_map do |topic|
        topic.partitions.map { |partition| [topic.name, partition.number] }
      end
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

  module_function

  # hour: seconds of history.
  def dashboard(hour: 3600)
    app = Pelton::App.new
    admin = Admin.new
    app.define_singleton_method(:admin) { admin }
    web = Pelton::Web.new(app)
    [web.history, web.sizes].each { |reading| reading.define_singleton_method(:start) { |*| nil } }
    web.reports.define_singleton_method(:start) { @complete = true }
    now = Pelton::Clock.wall
    (-hour..0).step(30) { |ago| web.history.send(:remember, admin.look(now + ago)) }
    (-hour..0).step(10) { |ago| PROCESSES.times { |number| web.reports.add(report(number, now + ago)) } }
    web
  end

  # Another look, and another report of each process.
  def go_on(web)
    now = Pelton::Clock.wall
    web.history.send(:remember, web.app.admin.look(now))
    PROCESSES.times { |number| web.reports.add(report(number, now)) }
  end

  # What a process reports. The next one is far away: a page that a slow browser reads for a minute must not change
  # because all processes are silent.
  def report(number, at)
    rows = Array.new(PARTITIONS) { |index| [index, index % 7, (index % 50).zero? ? "failing" : "idle"] }
    job = { group: "g", consumer: "OrdersConsumer", topic: "t", partition: 0, kind: "consume", since: at - 1,
            messages: 5 }
    error = { at: at - 1, source: "consumer.consume", class: "KeyError", message: "no total in shop #{number}" }
    facts = { version: 1, id: "web-#{number}:1:1", at: at, started_at: at - 3600, interval: 600, host: "web-#{number}",
              pid: 1, process: nil, name: "shop", pelton: "0", ruby: "3", state: "running", groups: ["g"], threads: 20,
              rss: 2**28, workers: 5, jobs: { running: 5, waiting: 9, aside: 0 }, running: [job] * 5,
              rates: { in: { "g" => 90.5 }, out: 40, errors: 0.2 }, left_out: 0, settings: {}, errors: [error] * 10,
              job_classes: JOB_CLASSES, partitions: { "g" => { "topic-#{number}" => rows } } }
    Pelton::Reports::Report.parse(JSON.generate(facts))
  end
end
