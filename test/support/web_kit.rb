# frozen_string_literal: true

require "stringio"
require "pelton/app"
require "pelton/web"
require "support/admin_kit"
require "support/fake_groups"

# A dashboard on a fake cluster, without sockets: `get("/groups")` is its answer.
module WebKit
  include AdminKit

  ENTITIES = { "&amp;" => "&", "&lt;" => "<", "&gt;" => ">", "&quot;" => '"', "&#39;" => "'" }.freeze

  Answer = Struct.new(:status, :headers, :body) do
    # The text that a reader sees.
    def text = body.gsub(/<[^>]*>/, " ").squeeze(" \n").gsub(/&(?:amp|lt|gt|quot|#39);/, ENTITIES)
  end

  LOCAL = { "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost:9280" }.freeze

  # A report, as `report(pid: 2, state: "quiet")` changes it.
  REPORT = { version: 1, interval: 60, host: "web", pid: 1, process: nil, name: "shop", pelton: "1.0", ruby: "3.4",
             state: "running", groups: ["billing"], threads: 9, rss: 50 << 20, workers: 5,
             jobs: { running: 1, waiting: 2, aside: 0 }, rates: { in: { "billing" => 12.5 }, out: 3.5, errors: 0.2 },
             running: [], partitions: { "billing" => { "orders" => [[0, 7, "running"], [1, 3, "failing"]] } },
             left_out: 0, settings: {}, errors: [] }.freeze

  def setup
    super
    @groups = Fakes::Groups.new
    @answers.merge!(@groups.answers)
    @answers[:cluster] = ["cluster", 1, [[1, "kafka-1", 9092, nil]]]
    @answers[:config] = [["orders", nil, [["retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", false, false]]]]
    @app = Pelton::App.new(native: @module)
    @app.config.logger = nil
    @reported = []
    @app.subscribe("error.occurred") { |event| @reported << event[:error] }
    @web = Pelton::Web.new(@app)
    @web.instance_variable_set(:@sizes, Pelton::Web::Sizes.new { |*| nil }) # they are not known
    # What reads the topic of reports; @reading makes it.
    reading = @reading = { messages: [], error: nil }
    reports = Pelton::Web::ReportHistory.new do |options, each|
      raise reading[:error] if reading[:error]

      options[:on_begin].call({ ["pelton.reports", 0] => 0...0 })
      reading[:messages].each(&each)
      options[:reached_end].call("pelton.reports", 0)
    end
    @web.instance_variable_set(:@reports, reports)
  end

  def report(pid: 1, host: "web", at: Pelton::Clock.wall, **change)
    facts = { **REPORT, id: "#{host}:#{pid}:1", pid: pid, host: host, at: at, started_at: at - 75, **change }
    Pelton::Reports::Report.parse(JSON.generate(facts)) or flunk "no report: #{facts}"
  end

  # The dashboard knows these.
  def reported(*reports) = reports.each { |report| @web.reports.add(report) }

  def teardown
    @web.close
    @app.close
    super
  end

  # Two partitions, of which the group has done 50 of 60 messages, and all.
  def orders
    @answers[:names] = ["orders"]
    @groups.logs.merge!({ ["orders", 0] => 10...60, ["orders", 1] => 0...30 })
    @groups.commits["billing"] = { ["orders", 0] => [50, ""], ["orders", 1] => [30, ""] }
    @groups.members["billing"] = [["m-1", "billing", nil, "/10.0.0.1", [["orders", 0], ["orders", 1]]]]
  end

  def get(path, query = {}, web: @web, verb: "GET", **env)
    status, headers, body = web.call({ **LOCAL,
                                       "REQUEST_METHOD" => verb, "PATH_INFO" => path, "SCRIPT_NAME" => "",
                                       "QUERY_STRING" => URI.encode_www_form(query), **env.transform_keys(&:to_s) })
    Answer.new(status, headers, body.join)
  end
end
