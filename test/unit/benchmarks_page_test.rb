# frozen_string_literal: true

require_relative "../test_helper"

# docs/benchmarks.md against bench/results: our figures, those of peers "in the same run", and what machine they are of.
class BenchmarksPageTest < Minitest::Test
  ROWS = File.readlines("#{Guard::ROOT}/docs/benchmarks.md").filter_map do |line|
    cells = line[/^\| (.*) \|$/, 1]&.split(" | ", -1)
    cells unless cells.nil? || cells[0] == "Work"
  end
  MARKS = { "¹" => /AMD EPYC.* 2026-11-23 /, "³" => /AMD EPYC.* 2026-11-28 /, "⁴" => /AMD EPYC.* 2026-11-29 /,
            "⁵" => /AMD EPYC.* 2026-11-30 /,
            nil => /Intel.* 2026-11-2[012] / }.freeze
  MILLION = 1_000_000

  # Of both Rubies: the case of the bench, and what one of the page's is there (:speed: the column with that name).
  def self.both(name, unit = 1) = [["3.1", name, unit], ["4.0", name, unit]]
  def self.of(ruby, name, unit = 1) = [[ruby, name, unit]]

  # {how a row begins => [bench, where its figures are from, one by one, and where those of peers]}
  SOURCES = {
    "1 producer, bursts" => ["polling", both("a burst of 1,000, handles waited for, default settings", MILLION),
                             both("a burst of 1,000, handles waited for, default settings, a blocking Ruby thread")],
    "its first burst" => ["polling", both("1 × 1,000, shared event thread"),
                          both("1 × 1,000, a blocking Ruby thread each")],
    "1 producer, 50,000" => ["polling", both("1, 50,000 in all, shared event thread", MILLION),
                             both("1, 50,000 in all, a blocking Ruby thread each", MILLION)],
    "25 producers" => ["polling", both("25, 50,000 in all, shared event thread", MILLION),
                       both("25, 50,000 in all, a blocking Ruby thread each", MILLION)],
    "messages of 100 B" => ["produce", [*both("1 producer", :speed), *both("25 producers, a thread each", :speed),
                                        *both("produce_many, 1,000 a call", :speed)], both("C loop", MILLION)],
    "one `produce_sync`" => ["sync", both("produce_sync, default settings, p50", 1_000),
                             both("C loop, default settings, p50", 1_000)],
    "from the delivery report" => ["wakeup", [*of("3.1", "from the report to the thread, p50"),
                                              *of("3.1", "from the report to the thread, p99")], []],
    "from the report" => ["wakeup", [*of("4.0", "from the report to the thread, p50"),
                                     *of("4.0", "from the report to the thread, p99")], []],
    **%w[3.1 4.0].to_h do |ruby|
      ["1,000 `produce_sync` in a row, Ruby #{ruby}",
       ["wakeup", of(ruby, "produce_sync, 1000 in a row", 1_000),
        [*of(ruby, "a wait that sleeps 10 ms, 1000 in a row (from 200)", 1_000),
         *of(ruby, "a wait that sleeps 100 ms, 1000 in a row (from 20)", 1_000)]]]
    end,
    "what 100 idle" => ["idle_clients", both("throughput lost to 100 idle producers, Pelton"),
                        both("throughput lost to 100 idle producers, a blocking Ruby thread each")],
    "transactions of" => ["transactions", ["1 producer", "pool of 10"].product([1, 10, 100]).flat_map do |who, count|
      of("3.1", "#{who}, #{count} each")
    end, []],
    "1 / 100 / 1,000 fibers" => ["fibers", ["1 fiber", "100 fibers", "1000 fibers"].flat_map do |who|
      of("4.0", "#{who} (the tests' scheduler)")
    end, []],
    "produce → consume" => ["latency", ["produce_sync", "C loop"].product(%w[3.1 4.0]).flat_map do |who, ruby|
      [*of(ruby, "#{who}, p50", 1_000), *of(ruby, "#{who}, p99", 1_000)]
    end, []],
    "what the framework adds" => ["overhead", [["3.1", "1 partition, 1 worker, a batch", 1_000],
                                               ["3.1", "1 partition, 1 worker, a batch", "objects"]], []],
    "servers with" => ["karafka", *["Pelton", "Karafka tuned"].map do |who|
      ["untouched", "read"].flat_map { |work| of("4.0", "1 KB #{work}, #{who}") }
    end],
    "the same servers at 5 KB" => ["karafka", *["Pelton", "Karafka tuned"].map do |who|
      ["untouched", "read"].flat_map { |work| of("4.0", "5 KB #{work}, #{who}") }
    end],
    "most memory" => ["karafka", *["Pelton", "Karafka tuned"].map do |who|
      ["1 KB", "5 KB"].product(%w[untouched read]).map { |size, work| ["4.0", "#{size} #{work}, #{who}", "MB most"] }
    end],
    "the same with `config.memory" => ["karafka", ["MB most", "msg/s"].flat_map do |unit|
      ["1 KB", "5 KB"].product(%w[untouched read]).map { |size, work| ["4.0", "#{size} #{work}, Pelton, 32 MB", unit] }
    end, []],
    "90,000 messages" => ["framework", both("1 KB, untouched", MILLION), both("C loop, 1 KB", MILLION)],
    "the same at 5 KB" => ["framework", [*both("5 KB text, payload read (JSON)"),
                                         *both("5 KB text, payload read (JSON), roomy heap")],
                           [*both("JSON.parse of each, no Kafka, 5 KB text"),
                            *both("JSON.parse of each, no Kafka, 5 KB text, roomy heap")]],
    "the same filtered" => ["framework", [*both("5 KB text, field filter (dig), the rare read"),
                                          *both("5 KB text, field filter (where), the rare read")], []],
    "documents twice" => ["framework", [*both("5 KB dense, payload read (JSON)"),
                                        *both("5 KB dense, field filter (dig), the rare read"),
                                        *both("5 KB dense, field filter (where), the rare read")],
                          both("JSON.parse of each, no Kafka, 5 KB dense")],
    "1 ms of I/O" => ["framework", both("5 KB, 1 ms of I/O a message, per key 8, 40 workers"),
                      of("3.1", "5 KB, 1 ms of I/O a message, 5 workers")],
    "4 partitions" => ["slow_neighbour", both("4 partitions beside one that sleeps 5 s a message", :speed), []],
    "no progress" => ["rebalance", %w[cooperative KIP-848].flat_map do |protocol|
      of("4.0", "#{protocol}: a member joins, the partition that waits longest", 1_000)
    end, []],
    "one subscription" => ["consume", ["1 KB", "5 KB", "1 KB in one of 4 partitions"].flat_map do |what|
      both("#{what} untouched", :speed)
    end, []]
  }.freeze

  def test_each_row_has_a_source
    assert_equal SOURCES.keys.sort, ROWS.map { |work,| key(work) }.sort
  end

  SOURCES.each do |start, (bench, ours, peers)|
    define_method("test_the_row_#{start.tr("^a-zA-Z0-9", "_")}_is_what_the_bench_measured") do
      work, pelton, others = ROWS.find { |row| row[0].start_with?(start) }
      assert_figures(bench, ours, pelton)
      assert_figures(bench, peers, others.to_s[/in the same run.*?(?=; [A-Z]|; its own|\z)/].to_s)
      (ours + peers).map(&:first).uniq.each do |ruby|
        assert_match MARKS.fetch(work[/[¹³⁴⁵]\z/]), result(bench, ruby).lines[2], "#{work}: machine of Ruby #{ruby}"
      end
    end
  end

  private

  def key(work) = SOURCES.keys.find { |start| work.start_with?(start) } || work

  def result(bench, ruby) = File.read("#{Guard::ROOT}/bench/results/#{bench}-ruby#{ruby}.md")

  # What is no measured figure: targets of links, versions, sizes, how long a peer sleeps.
  NO_FIGURE = /\]\([^)]*\)|\((?:3\.1|4\.0)\)|5 KB:|sleeps 10 ms|100 ms:|of 2 rounds/
  FIGURE = /[−\d][\d,.]*(?<![,.])/

  # The figures of the text are the sources', as exactly as they are shown: 1.26 to 0.005, and 32,600 to 50.
  def assert_figures(bench, sources, text)
    shown = text.gsub(NO_FIGURE, "").scan(FIGURE)
    assert_equal sources.size, shown.size, "figures of #{text.inspect}: #{shown}"
    sources.zip(shown) do |(ruby, name, unit), figure|
      digits = figure.delete(",").tr("−", "-")
      exact = digits.include?(".") ? 0.1**digits[/\.(.*)/, 1].size : 10**digits[/0*\z/].size
      there = measured(bench, ruby, name, unit)
      assert_in_delta there, Float(digits), (exact / 2.0) + 1e-9, "#{figure}: #{ruby}, #{name}"
    end
  end

  def measured(bench, ruby, name, unit)
    rows = result(bench, ruby).lines.map { |line| line.split("|").map(&:strip) }.select { |row| row[1] == name }
    row = rows.find { |candidate| candidate[3] == unit } || rows.fetch(0)
    return Float(row[5][/[\d.]+/]) if unit == :speed

    Float(row[2].delete(",")) / (unit.is_a?(String) ? 1 : unit)
  end
end
