# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
require "pelton/cli/top/frame"
require "pelton/reports/reports"

# What `pelton top` shows. (In a real terminal: test/integration/top.rb.)
class TopFrameTest < Minitest::Test
  NOW = 1_764_300_000.0
  JOB = { group: "billing", consumer: "OrdersConsumer", topic: "orders", partition: 0, kind: "consume",
          since: NOW - 75, called: NOW - 70, messages: 10, offset: 12 }.freeze
  ERROR = { at: NOW - 5, source: "consumer.consume", class: "KeyError", message: "no \e[31m", group: "billing",
            topic: "orders", partition: 1, offset: 42, failure_id: "f1" }.freeze

  FACTS = { version: 1, at: NOW - 1, started_at: NOW - 3600, interval: 5, host: "web", process: nil, name: "shop",
            pelton: "1", ruby: "3", state: "running", groups: ["billing"], threads: 9, rss: 50 << 20, workers: 5,
            jobs: { running: 1, waiting: 0, aside: 0 }, rates: { in: { "billing" => 12.5 }, out: 3, errors: 0.2 },
            running: [JOB], partitions: { "billing" => { "orders" => [[0, 7, "running"], [1, 3, "failing"]] } },
            left_out: 0, settings: {}, errors: [ERROR] }.freeze

  def report(pid: 1, **change)
    Pelton::Reports::Report.parse(JSON.generate({ **FACTS, id: "web:#{pid}:2", pid: pid, **change }))
  end

  def frame(*reports, **options)
    Pelton::CLI::Top::Frame.new(Pelton::Reports::Summary.new(reports, now: NOW, **options))
  end

  def test_a_frame_has_groups_processes_jobs_partitions_and_errors
    assert_equal <<~TEXT, frame(report).lines.map { |line| "#{line}\n" }.join
      pelton top  2025-11-28 03:20:00 UTC  1 of 1 processes live

      GROUP    PROCESSES  LAG  DONE/S
      billing          1   10    12.5

      PROCESS  NAME  STATE    UP   BUSY  WAITING  DONE/S  SENT/S  ERRORS/S  LAG  MEMORY  THREADS
      web:1    shop  running  1 h  1/5         0    12.5       3       0.2   10  50 MB         9

      RUNS        CALL        CONSUMER        PARTITION  OFFSET  KIND     MESSAGES  PROCESS
      1 min 15 s  1 min 10 s  OrdersConsumer  orders/0       12  consume        10  web:1

      PARTITION  GROUP    STATE      CALL        OFFSET  LAG  PROCESS
      orders/1   billing  failing    -                -    3  web:1
      orders/0   billing  long call  1 min 10 s      12    7  web:1

      AGO  ERROR     AT           MESSAGE
      5 s  KeyError  orders/1 42  no \\e[31m
    TEXT
  end

  def test_a_call_is_long_after_a_minute_and_the_longest_of_a_partition_counts
    rows = lambda do |**change|
      frame(report(**change)).to_h[:partitions].select { |row| row[:state] == "long call" }
                             .map { |row| row.values_at(:partition, :seconds, :offset, :lag) }
    end
    job = ->(seconds, **change) { { **JOB, called: NOW - seconds, **change } }
    assert_empty rows.call(running: [job.call(59.9), { **JOB, called: nil }, JOB.except(:called, :offset)])
    assert_equal [["orders/0", 60.0, 12, 7]], rows.call(running: [job.call(60)])
    assert_equal [["orders/0", 90.0, 3, 7]], rows.call(running: [job.call(70), job.call(90, offset: 3), job.call(80)])
    assert_empty rows.call(running: [job.call(119.9, long: 120)]), "its route has a time of its own"
    assert_equal [["orders/0", 5.0, 12, 7]], rows.call(running: [job.call(5, long: 5)])
    assert_equal [["orders/9", 60.0, nil, nil]], rows.call(running: [job.call(60, partition: 9, offset: nil)])
    assert_empty rows.call(running: [job.call(60)], at: NOW - 30), "a silent process"
  end

  # The cluster's lags lack partitions without a commit, and those of the processes, here 7 and 3, those without an
  # owner.
  def test_lag_of_a_partition_is_the_clusters_or_else_that_of_its_process
    lags = [{ ["orders", 0] => 0, ["orders", 1] => 2, ["bills", 0] => 90 }, { ["orders", 0] => 0 }, {}].map do |known|
      data = frame(report(running: []), lags: { "billing" => known }).to_h
      %i[groups processes partitions].map { |rows| data[rows].map { |row| row[:lag] } }
    end
    assert_equal [[[92], [2], [2]], [[3], [3], [3]], [[10], [10], [3]]], lags
  end

  def test_silent_and_stopped_processes_have_no_jobs
    silent = report(at: NOW - 60)
    stopped = report(pid: 2, state: "stopped", at: NOW - 60)
    data = frame(silent, stopped).to_h
    assert_equal %w[silent stopped], data[:processes].map { |row| row[:state] }
    assert_equal [[], [], 0], [data[:jobs], data[:partitions], data[:groups].first[:processes]]
  end

  # Clocks of two machines differ.
  def test_a_job_that_just_began_has_its_tenths_of_a_second_and_never_less_than_none
    running = [0.4, -5].map { |seconds| { **JOB, since: NOW - seconds } }
    assert_equal [0.4, 0], (frame(report(running: running)).to_h[:jobs].map { |job| job[:seconds] })
  end

  def test_another_group_is_left_out
    other = report(pid: 2, groups: %w[billing audit], running: [{ **JOB, group: "audit" }], errors: [],
                   rates: { in: { "billing" => 1, "audit" => 4 }, out: 0, errors: 0 }, partitions: {})
    data = frame(other, group: "audit").to_h
    assert_equal [["audit"], [4.0], 1], [data[:groups].map { |row| row[:group] }, data[:processes].map do |row|
                                                                                    row[:per_second]
                                                                                  end,
                                         data[:jobs].size]
    assert_empty frame(other, group: "billing").to_h[:jobs]
  end

  def test_lines_fit_into_the_terminal
    many = Array.new(50) { |number| report(pid: number + 1) }
    lines = frame(*many).lines(width: 40, height: 20)
    assert_operator lines.size, :<=, 20
    assert_operator lines.map(&:size).max, :<=, 40
    assert(lines.any? { |line| line.match?(/\A… \d+ more\z/) })
  end

  # Four tables besides that of the processes have one row each. Each table has an empty line and its headings.
  def test_lines_are_shared_out_among_the_tables
    many = Array.new(50) { |number| report(pid: number + 1, running: [], errors: [], partitions: {}) }
    shown = ->(height) { frame(*many).lines(height: height).map(&:strip) }
    { 21 => 8, 19 => 7, 9 => 2 }.each do |height, rows|
      lines = shown.call(height)
      assert_equal ["", "GROUP    PROCESSES  LAG  DONE/S"], lines[1, 2]
      assert_equal [rows - 1, "… #{50 - rows + 1} more"], [lines.grep(/\Aweb:/).size, lines.last], height
    end
    assert_equal 3, shown.call(3).size
    assert_equal 50, frame(*many).lines(height: 200).grep(/\Aweb:/).size
  end

  def test_no_process
    assert_equal "No process has reported lately.", frame.lines.last
  end
end
