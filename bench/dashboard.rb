# How long does the dashboard take to make a page for 50 processes with 200 partitions each?
# frozen_string_literal: true

require_relative "support"
require_relative "../test/support/large_cluster"

def milliseconds(web, path, query)
  environment = { "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => query,
                  "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost" }
  seconds = Array.new(5) do
    Bench.seconds { web.call(environment).then { |status, _, body| raise body.join unless status == 200 } }
  end
  Bench.median(seconds) * 1000
end

Bench.measure("dashboard") do |bench|
  web = LargeCluster.dashboard(hour: Bench.some(3600))
  error = URI.encode_www_form(id: Pelton::Web::Repeats.of(web.reports.failures).first.id)
  { "Overview" => ["/"], "Groups" => ["/groups"], "a group" => ["/group", "id=group-of-topic-0"],
    "Topics" => ["/topics"], "a topic" => ["/topic", "name=topic-0"], "Processes" => ["/processes"],
    "a process" => ["/process", "id=web-1%3A1%3A1"], "Errors" => ["/errors"],
    "an error" => ["/error", error], "Jobs" => ["/jobs"], "Search" => ["/search", "text=topic"],
    "Settings" => ["/settings", "id=web-1%3A1%3A1"] }.each do |name, (path, query)|
    bench.case(name, "ms") { milliseconds(web, path, query.to_s) }
  end
end
