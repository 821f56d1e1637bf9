# frozen_string_literal: true

require "net/http"
require "open3"
require "support/scenario"

# A real Prometheus, which scrapes one port. For scenarios.
module Prometheus
  FOLDER = File.join(Scenario::ROOT, "examples/prometheus")
  TOOLS = %w[prometheus promtool].freeze

  module_function

  # Ends the program with 77 where it is not installed.
  def needed
    missing = TOOLS.reject { |tool| system("command -v #{tool} > /dev/null") }
    Scenario.needs(("no #{missing.join(" and ")} (Debian: apt-get install prometheus)" if missing.any?))
  end

  # The rest is for a Scenario that extends itself.

  def promtool(*arguments, input: nil)
    output, status = Open3.capture2e("promtool", *arguments, stdin_data: input.to_s)
    check(status.success?, "promtool #{arguments.join(" ")}: #{output}")
  end

  # Starts it. Returns the child.
  def scrape(port)
    folder = Dir.mktmpdir("pelton-prometheus")
    at_exit { FileUtils.rm_rf(folder) }
    File.write("#{folder}/prometheus.yml", <<~YAML)
      scrape_configs:
        - job_name: pelton
          scrape_interval: 500ms
          static_configs: [{ targets: ["127.0.0.1:#{port}"] }]
    YAML
    @prometheus = "127.0.0.1:#{TestBroker.free_port}"
    child({}, ["prometheus", "--config.file=#{folder}/prometheus.yml", "--storage.tsdb.path=#{folder}/data",
               "--web.listen-address=#{@prometheus}", "--log.level=warn"])
  end

  # The values that the query has now.
  def query(text)
    response = Net::HTTP.get_response(URI("http://#{@prometheus}/api/v1/query?#{URI.encode_www_form(query: text)}"))
    return [] if response.code == "503" # it starts

    answer = JSON.parse(response.body)
    equal("success", answer["status"], text)
    answer.dig("data", "result").map { |row| Float(row["value"][1]) }
  rescue SystemCallError
    [] # it does not listen yet
  end

  # Waits until a query has these values. One scrape may see a counter before another one that grew earlier, and after a
  # scrape that took too long, no query has values for a moment.
  def becomes(values, text, what = text)
    found = nil
    eventually(40, -> { "#{what}: expected #{values}, got #{found}" }) { (found = query(text)) == values }
    check(true, what)
  end

  # Each panel of the dashboard has data.
  def panels_have_data
    panels = JSON.parse(File.read("#{FOLDER}/grafana.json"))["panels"]
    panels.flat_map { |panel| panel["targets"].map { |target| [panel["title"], target["expr"]] } }.each do |title, text|
      text = text.gsub("$__rate_interval", "1m")
      eventually(40, "#{title}: no data for #{text}") { query(text).any? }
    end
    panels.size
  end
end
