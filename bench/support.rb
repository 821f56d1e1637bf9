# frozen_string_literal: true

require "json"
require "rbconfig"
require "pelton"
require_relative "support/chart"
require_relative "support/cluster"

# The base of the bench files. bin/bench runs each of them in a process of its own, with a broker.
#
#   Bench.measure("produce") do |bench|
#     bench.case("C loop", "msg/s") { Cluster.c_loop("produce", …) }         # a number
#     bench.case("1 producer", "msg/s", vs: "C loop") { 300_000 / seconds }
#   end
module Bench
  RUNS = Integer(ENV["BENCH_RUNS"] || 3)

  # Seconds for a bench: no round begins that would end later, whatever RUNS says.
  LIMIT = Float(ENV["BENCH_LIMIT"] || Float::MAX)

  # Only checks that the benches run, with a fiftieth of the work.
  QUICK = ENV.key?("BENCH_QUICK")

  module_function

  # This many, or a few of them in a quick run.
  #: (Integer) -> Integer
  def some(count) = QUICK ? [count / 50, 1].max : count

  # Runs the cases that the block names, one after the other, RUNS times round; then prints the medians.
  # warm_up: a round before that does not count; there is none where each case is a process of its own.
  #: (String, ?warm_up: bool) { (Measure) -> void } -> void
  def measure(name, warm_up: true)
    measure = Measure.new(name, warm_up ? 1 : 0)
    yield measure
    measure.run
  ensure
    Cluster.close
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # How long the block takes.
  #: () { () -> untyped } -> Float
  def seconds
    started = now
    yield
    now - started
  end

  # The value at this share (0..1) of a list.
  #: (Array[Numeric], Float) -> Numeric
  def percentile(values, share) = values.sort[((values.size - 1) * share).round]

  # Of an even number of values what lies between the two in the middle.
  #: (Array[Numeric]) -> Numeric
  def median(values)
    sorted = values.sort
    middle = sorted.values_at((sorted.size - 1) / 2, sorted.size / 2)
    middle.uniq.size == 1 ? middle.first : middle.sum / 2.0
  end

  # MB of memory that this process has in RAM, garbage collected.
  #: () -> Float
  def resident
    GC.start
    File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i / 1024.0
  end

  # The block's value (one for JSON), found by a process of its own: a fresh heap, no client before.
  def forked
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      writer.write(JSON.generate(yield))
      writer.close
      exit!(0) # the cluster is the parent's
    end
    writer.close
    value = reader.read
    Process.wait(pid)
    raise "the measuring process failed" unless $?.success?

    JSON.parse(value)
  end

  # Starts a process of its own for the block. The returned lambda, which other processes may call, lets it begin.
  #: () { () -> void } -> ^() -> void
  def forked_later
    reader, writer = IO.pipe
    pid = fork do
      writer.close
      yield if reader.read(1) # nil: they ended before
      exit!(0)
    end
    Process.detach(pid)
    -> { writer.write("!") }
  end

  # The cases of one bench file and what they gave.
  class Measure
    TIMES = %w[s ms µs ns].freeze # smaller is faster

    # warm_up: how many rounds do not count.
    def initialize(bench, warm_up)
      @bench = bench
      @warm_up = warm_up
      @began = Bench.now
      @cases = []
      @values = {} # {["1 producer", "msg/s"] => [a value of each round, …]}
      @peers = {} # {the same key => the case that it is compared to}
      @charts = [] # [["messages a second", "msg/s", //], …]
    end

    # Draws the values of this unit when the results are saved: all of them, or those whose names match.
    #: (String, String, ?Regexp) -> void
    def chart(title, unit, names = //) = @charts << [title, unit, names]

    # A case; the block measures once and returns the value. vs: the peer or limit, a case of the same unit.
    #: (String, String, ?vs: String?) { () -> Numeric } -> void
    def case(name, unit, vs: nil, &block)
      @cases << lambda do
        @values[[name, unit]] ||= [] # its line comes before what the block notes
        note(name, unit, block.call, vs: vs)
      end
    end

    # A further value that a case's block measured.
    #: (String, String, Numeric, ?vs: String?) -> void
    def note(name, unit, value, vs: nil)
      (@values[[name, unit]] ||= []) << value
      @peers[[name, unit]] = vs
    end

    # The newest value of a case of this round.
    def last(name, unit) = @values.fetch([name, unit]).last

    # Peers and ours in turn, so that a slow minute of the machine is all of theirs.
    def run
      started = Bench.now
      (@warm_up + RUNS).times do |round|
        @values.clear if round == @warm_up
        break if round > @warm_up && !time_for_one_more?(started, round)

        @cases.each do |measure|
          GC.start
          measure.call
        end
      end
      ENV["BENCH_JSON"] ? print_json : print_table
      $stdout.flush
      save(ENV["BENCH_SAVE"]) if ENV["BENCH_SAVE"]
    end

    private

    # After so many rounds, if it takes as long as they did on average.
    def time_for_one_more?(started, rounds)
      now = Bench.now
      now - @began + ((now - started) / rounds) <= LIMIT
    end

    def rounds = @values.values.map(&:size).max.then { |count| "#{count} round#{"s" if count > 1}" }

    def print_json
      @values.each do |(name, unit), values|
        puts JSON.generate(bench: @bench, case: name, ruby: RUBY_VERSION, broker: Cluster.kind,
                           value: rounded(Bench.median(values)), unit: unit)
      end
    end

    # The table as a page, with what is needed to judge it.
    def save(folder)
      rows = @values.map do |(name, unit), values|
        cells = [name, text(Bench.median(values)), unit, span(values), speed(name, unit)]
        "| #{cells.join(" | ")} |"
      end
      page = "#{@bench}-ruby#{RUBY_VERSION[/\A\d+\.\d+/]}"
      File.write(File.join(folder, "#{page}.md"), <<~TEXT)
        # #{@bench}

        #{ENV["BENCH_ABOUT"]}; #{Time.now.utc.strftime("%Y-%m-%d %H:%M UTC")}; median, least and most of #{rounds}
        #{draw(folder, page)}

        | case | median | unit | min … max | speed |
        |---|---:|---|---:|---|
        #{rows.join("\n")}
      TEXT
    end

    # Links to the charts that it writes.
    def draw(folder, page)
      @charts.each_with_index.map do |(title, unit, names), index|
        bars = @values.filter_map do |(name, its_unit), values|
          next unless its_unit == unit && names.match?(name)

          median = Bench.median(values)
          Chart::Bar.new(name, median, *values.minmax, "#{text(median)} #{unit}")
        end
        file = "#{page}#{"-#{index + 1}" if @charts.size > 1}.svg"
        File.write(File.join(folder, file), Chart.new("#{title} (Ruby #{RUBY_VERSION})", bars).to_svg)
        "\n![#{title}](#{file})\n"
      end.join
    end

    def print_table
      width = @values.keys.map { |name, _| name.size }.max
      puts "#{@bench.ljust(width)}  #{"median".rjust(11)} #{"unit".ljust(8)} #{rounds.rjust(11)}: min … max  speed"
      @values.each do |(name, unit), values|
        median = text(Bench.median(values)).rjust(11)
        puts "#{name.ljust(width)}  #{median} #{unit.ljust(8)} #{span(values).rjust(24)}  #{speed(name, unit)}".rstrip
      end
      puts
    end

    # How many times as fast as the peer: the median over the rounds.
    def speed(name, unit)
      peer = @peers[[name, unit]] or return
      pairs = @values[[name, unit]].zip(@values.fetch([peer, unit]))
      ratio = Bench.median(pairs.map { |mine, other| TIMES.include?(unit) ? other.fdiv(mine) : mine.fdiv(other) })
      format("%<ratio>.2f× %<peer>s", ratio: ratio, peer: peer)
    end

    def span(values) = values.minmax.map { |value| text(value) }.join(" … ")
    def rounded(value) = value.abs >= 100 ? value.round : value.round(2)
    def text(value) = rounded(value).to_s.gsub(/(\d)(?=(\d{3})+(?!\d|\.\d))(?<!\.\d)/, "\\1,")
  end
end
