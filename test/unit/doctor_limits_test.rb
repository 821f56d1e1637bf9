# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "pelton/cli/doctor"

# The values at which `pelton doctor` starts to warn: on each side of the limit.
class DoctorLimitsTest < Minitest::Test
  CLI = Pelton::CLI
  # The groups g and h read orders, which has four partitions.
  CLUSTER = { "orders" => 4 }.freeze

  class Consumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    @app = Pelton::App.new
    @app.routes do
      %w[g h].each { |name| group(name) { topic("orders", to: Consumer) } }
    end
  end

  # The findings of one part of doctor about one thing.
  def findings(about, clusters = { "g" => CLUSTER, "h" => CLUSTER })
    report = CLI::Doctor::Report.new
    CLI::Doctor::Topics.new(@app.config, @app.routes.groups(@app.config), clusters, Pelton::Native).examine(report)
    CLI::Doctor::Timeouts.new(@app.config, @app.routes.groups(@app.config), Pelton::Native).examine(report)
    report.findings.select { |finding| finding[:about] == about }
  end

  # Of eight partitions, which take this part of the memory together.
  def partitions_take(part)
    bytes = (CLI::Doctor::Machine.memory * part / 8) - @app.config.prefetch_bytes
    @app.config.kafka = { "queued.max.messages.kbytes" => (bytes / 1024).floor }
  end

  def test_partitions_that_take_more_than_half_of_the_memory_are_a_warning
    partitions_take(0.49)
    assert_empty findings("memory")
    partitions_take(0.51)
    assert_match(/all partitions together may take \d+ MB of \d+ MB/, findings("memory").first[:text])
  end

  def test_memory_is_shown_in_megabytes
    partitions_take(0.51)
    all = CLI::Doctor::Machine.memory >> 20
    part, total = findings("memory").first[:text].scan(/(\d+) MB/).flatten.map(&:to_i)
    assert_equal all, total
    assert_in_delta all * 0.51, part, 16
  end

  def test_more_workers_than_jobs_are_a_note_if_the_partitions_of_all_groups_are_known
    @app.config.concurrency = 8
    assert_empty findings("concurrency")
    @app.config.concurrency = 9
    assert_match(/9 workers, but at most 8 jobs at once/, findings("concurrency").first[:text])
    assert_empty findings("concurrency", { "g" => CLUSTER })
    assert_empty findings("concurrency", {})
  end

  def test_revocation_timeout_that_reaches_the_poll_interval_is_a_warning
    { 30_001 => 0, 30_000 => 1 }.each do |interval, count|
      @app.config.kafka = { "max.poll.interval.ms" => interval, "session.timeout.ms" => 10_000 }
      found = findings("group g").grep(->(finding) { finding[:text].include?("revocation_timeout (30 s)") })
      assert_equal count, found.size, "#{interval} ms"
    end
  end
end
