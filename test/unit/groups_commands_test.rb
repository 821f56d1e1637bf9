# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "support/admin_kit"
require "support/fake_groups"
require "pelton/cli/cli"
require "pelton/offsets/markers"
require "json"
require "stringio"
require "time"

# `pelton groups …`, on fakes of the native administrator and of Kafka's groups.
class GroupsCommandsTest < Minitest::Test
  include AdminKit

  class Terminal < StringIO
    def tty? = true
    def winsize = [24, 100]
  end

  # Each lag has messages up to its end.
  MESSAGES = ->(_, ranges) { ranges.transform_values { |range| [range.end - 1, range.end] } }

  def setup
    super
    @kafka = Fakes::Groups.new
    @kafka.logs.merge!(["orders", 0] => 10..60, ["orders", 1] => 0..20, ["orders", 2] => 5..5, ["bills", 0] => 0..3)
    @kafka.commits["billing"] = { ["orders", 0] => [40, "checkpoint"], ["orders", 1] => [20, ""] }
    @answers.merge!(@kafka.answers, cluster: ["id", 1, [[1, "kafka-1", 9092, nil]]])
    @out = StringIO.new
    @err = StringIO.new
  end

  # Runs `pelton groups …`; fails unless it ends with this code. Returns what it printed.
  def pelton(*arguments, code: 0, input: StringIO.new)
    app = Pelton::App.new(native: @module)
    app.config.kafka = { "bootstrap.servers" => "kafka-1:9092" }
    app.config.logger = nil
    cli = Pelton::CLI.new(["groups", *arguments], app: app, out: @out, err: @err, input: input, env: {})
    found = Pelton::Offsets::Markers.stub(:read, MESSAGES) { cli.run }
    assert_equal code, found, @err.string
    text = [@out.string.dup, @err.string.dup]
    [@out, @err].each { |io| io.truncate(0) && io.rewind }
    text
  end

  def json(...) = JSON.parse(pelton(...).first, symbolize_names: true)

  def refused(pattern, *arguments)
    _, error = pelton(*arguments, code: 1)
    assert_match pattern, error
  end

  def live(id, topics = [["orders", 0], ["orders", 1], ["orders", 3]])
    @kafka.members[id] = [["m-1", "web-1", nil, "/10.0.0.1", topics], ["m-2", "web-2", "two", "/10.0.0.2", []]]
  end

  def changed? = @native.asked.any? { |kind,| kind.match?(/alter|delete/) }

  # --- list ---

  def test_list
    live("web")
    @kafka.types["web"] = "Consumer"
    assert_equal [%w[GROUP STATE TYPE MEMBERS], %w[billing empty classic 0], %w[web stable consumer 2]],
                 pelton("list").first.lines.map(&:split)
    assert_equal [{ group: "web", state: "stable", type: "consumer", members: 2 }], json("list", "w*", "--json")
  end

  def test_list_with_lag_and_filters
    live("web")
    @kafka.commits["mailing"] = { ["bills", 0] => [1, ""], ["gone", 0] => [4, ""] }
    @kafka.types["mailing"] = "Consumer"
    rows = json("list", "--lag", "--json").map { |row| row.values_at(:group, :lag, :without_commit) }
    assert_equal [["billing", 20, 0], ["mailing", 2, 0], ["web", nil, 3]], rows
    assert_equal ["web"], json("list", "--state", "stable", "--json").map { |row| row[:group] }
    assert_equal %w[billing mailing], json("list", "*ing", "--state", "empty", "--json").map { |row| row[:group] }
    assert_equal ["mailing"], json("list", "--type", "consumer", "--json").map { |row| row[:group] }
    assert_equal "no groups\n", pelton("list", "x*").first
    @kafka.commits["a[b]"] = {}
    assert_equal ["a[b]"], json("list", "a[b]", "--json").map { |row| row[:group] }
    refused(/--state = "running": expected stable, empty/, "list", "--state", "running")
  end

  def test_misspelled_group_gets_a_suggestion
    [%w[list biling], %w[show biling], %w[lag biling], %w[reset biling --to end --all-topics], %w[copy biling new],
     %w[delete biling --yes]].each do |arguments|
      refused(/biling: unknown group, did you mean billing\?/, *arguments)
    end
    @kafka.commits.clear
    refused(/biling: unknown group: the cluster has no groups/, "show", "biling")
  end

  # --- show ---

  def test_show
    live("billing")
    text, = pelton("show", "billing")
    assert_match(/^coordinator +1 \(kafka-1:9092\)$/, text)
    assert_match(/^web-1 +10\.0\.0\.1 +- +orders 0-1,3 +m-1$/, text)
    assert_match(/^orders +0 +40 +60 +20 +checkpoint +web-1$/, text)
    assert_match(/^orders +1 +20 +20 +0 +web-1$/, text)
    data = json("show", "billing", "--json")
    assert_equal ["billing", "stable", "classic", "1 (kafka-1:9092)"],
                 data.values_at(:group, :state, :type, :coordinator)
    assert_equal({ client: "web-1", host: "10.0.0.1", instance: nil, partitions: { orders: [0, 1, 3] }, member: "m-1" },
                 data[:members].first)
    assert_equal({ topic: "orders", partition: 0, committed: 40, end: 60, lag: 20, metadata: "checkpoint",
                   client: "web-1" }, data[:partitions].first)
    assert_equal [nil, nil, nil], data[:partitions].last.values_at(:committed, :end, :lag), "no partition 3"
  end

  def test_show_of_a_group_without_members_or_commits
    @kafka.commits["billing"].clear
    text, = pelton("show", "billing")
    assert_includes text, "no live members"
    refute_match(/^\S+ *$/, text[/\A.*?\n\n/m], "a fact without a value")
    assert_includes text, "no committed offsets"
  end

  # --- lag ---

  def test_lag
    @kafka.commits["mailing"] = { ["bills", 0] => [1, ""] }
    live("billing", [["orders", 1], ["orders", 2]]) # as Kafka's tools, also a partition without a commit
    assert_match(/ LAG +WITHOUT COMMIT\nbilling +stable +classic +2 +20 +1$/, pelton("list", "billing", "--lag").first)
    text, = pelton("lag")
    assert_match(/^billing +orders +0 +40 +60 +20$.*^billing +orders +2 +- +5 +-$/m, text)
    assert_match(/^billing: lag 20 in 2 partitions with a commit, 1 without$/, text)
    assert_match(/^mailing: lag 2 in 1 partition with a commit$/, text)
    data = json("lag", "billing", "--json")
    assert_equal [20, ["billing"]], [data[:lag], data[:groups].map { |group| group[:group] }]
    assert_equal({ topic: "orders", partition: 1, committed: 20, end: 20, lag: 0 }, data[:groups][0][:partitions][1])
    assert_in_delta Time.now, Time.iso8601(data[:time]), 60 * Guard::PATIENCE
    assert_equal 0, json("lag", "billing", "--topic", "orders:1,2", "--json")[:lag]
    assert_equal true, asked.last.last, "committed"
    json("lag", "billing", "--uncommitted", "--json")
    assert_equal false, asked.last.last
  end

  # A script that watches a limit would see no lag.
  def test_lag_of_no_group_and_of_a_group_without_commits
    refused(/x\*: matches no group/, "lag", "x*", "--max", "1")
    @kafka.commits["idle"] = {}
    assert_equal "idle: no committed offsets\n", pelton("lag", "i*", "--max", "0").first
    data = json("lag", "idle", "billing", "--json")
    assert_equal [20, [nil, 20]], [data[:lag], data[:groups].map { |group| group[:lag] }]
    refused(/--topic = "bills": no committed offsets there/, "lag", "--topic", "orders", "--topic", "bills")
    @kafka.commits.clear
    assert_equal "no groups\n", pelton("lag").first
  end

  def test_lag_above_a_limit
    text, error = pelton("lag", "billing", "--max", "19", code: 1)
    assert_includes text, "lag 20"
    assert_equal "pelton: the lag of billing is 20, above 19\n", error
    pelton("lag", "billing", "--max", "20")
  end

  # It ends when the lag is above --max.
  def test_lag_is_watched_with_its_change_per_second
    listed = @answers[:offsets]
    count = 0
    @answers[:offsets] = lambda do |argument|
      @kafka.logs[["orders", 0]] = 10..(60 + count)
      count += 1
      listed.call(argument)
    end
    text, = pelton("lag", "billing", "--watch", "0.01", "--max", "22", "--json", code: 1)
    rows = text.lines.map { |line| JSON.parse(line, symbolize_names: true) }
    assert_equal [20, 21, 22, 23], rows.map { |row| row[:lag] }
    trends = rows.map { |row| row.dig(:groups, 0, :partitions, 0, :per_second) }
    assert_nil trends.first
    assert_operator trends[1..].min, :>, 0
    assert_equal [0.0] * 3, rows.drop(1).map { |row| row.dig(:groups, 0, :partitions, 1, :per_second) }
    text, = pelton("lag", "billing", "--watch", "0.01", "--max", "26", code: 1)
    assert_equal 4, text.scan("PER SECOND").size
    assert_match(/^billing: lag 27 in 2 partitions with a commit, \+\d+\.\d per second$/, text)
    refute_includes text, "\e["
  end

  def test_watch_redraws_a_terminal
    @out = Terminal.new
    text, = pelton("lag", "billing", "--watch", "--max", "0", code: 1)
    assert text.start_with?("\e[H\e[2J20"), text
    assert_includes text, "\e[31mbilling: lag 20"
  end

  # A broker restarts.
  def test_watch_goes_on_after_a_retriable_error
    late = Pelton::KafkaError.new(-185, :_TIMED_OUT, "no answer", false, true)
    listed = @answers[:offsets]
    answers = [late, late, nil]
    @answers[:offsets] = ->(argument) { answers.shift || listed.call(argument) }
    text, error = pelton("lag", "billing", "--watch", "0.01", "--max", "0", "--json", code: 1)
    assert_equal 1, text.lines.size
    assert_equal 2, error.scan("no answer").size
    answers.push(late)
    refused(/no answer/, "lag", "billing")
  end

  # A broker that has just started lists no groups.
  def test_watch_goes_on_with_the_groups_that_it_knows
    listed = @answers[:groups]
    answers = []
    @answers[:groups] = lambda do |argument|
      @kafka.logs[["orders", 0]] = 10..70 if answers.empty?
      answers.shift || listed.call(argument)
    end
    %w[billing bill*].each do |name|
      answers.replace([listed.call(nil), [[], []], [[], []]])
      @kafka.logs[["orders", 0]] = 10..60
      text, = pelton("lag", name, "--watch", "0.01", "--max", "25", "--json", code: 1)
      assert_equal [20, 20, 20, 30], text.lines.map { |line| JSON.parse(line)["lag"] }
    end
  end

  # The name of a group may be anything.
  def test_escape_sequences_in_names_do_not_reach_the_terminal
    @out = Terminal.new
    @kafka.commits["a\e]0;x"] = { ["orders", 1] => [3, "\e[2J"] }
    %w[list lag].each { |command| refute_match(/\e[^\[]|\e\[\d*J/, pelton(command).first) }
    refute_includes pelton("show", "a\e]0;x").first, "\e[2J"
    refute_includes pelton("lag", "--max", "1", code: 1).last, "\e"
  end

  def test_watch_takes_seconds
    refused(/--watch = "billing": expected seconds, such as 5; names of groups/, "lag", "--watch", "billing")
    refused(/--watch = "0": expected seconds/, "lag", "--watch", "0")
  end

  # --- reset ---

  def test_reset_is_a_dry_run
    text, = pelton("reset", "billing", "--to", "beginning", "--all-topics")
    assert_match(/^TOPIC +PARTITION +BEFORE +AFTER +SKIPPED +REPEATED +NOTE$/, text)
    assert_match(/^orders +0 +40 +10 +0 +30$/, text)
    assert_match(/^orders +2 +- +5 +- +-$/, text)
    assert_match(/^group billing: 0 skipped, 50 repeated in 3 partitions$/, text)
    assert_includes text, "dry run: nothing was changed; add --apply"
    refute_predicate self, :changed?
  end

  def test_reset_applies
    data = json("reset", "billing", "--to", "end", "--topic", "orders:0", "--apply", "--json")
    assert_equal({ group: "billing", applied: true, live_members: [],
                   changes: [{ topic: "orders", partition: 0, before: 40, after: 60, skipped: 20, repeated: 0,
                               bounded: nil }] }, data)
    assert_equal({ ["orders", 0] => 60, ["orders", 1] => 20 }, @kafka.offsets_of("billing"))
    assert_match(/applied$/, pelton("reset", "billing", "--shift", "-5", "--all-topics", "--apply").first)
    assert_equal({ ["orders", 0] => 55, ["orders", 1] => 15 }, @kafka.offsets_of("billing"))
  end

  def test_reset_to_offsets_and_times
    now = Time.now.to_i
    @kafka.times[["orders", 0]] = { (now - 7000) * 1000 => 20, (now - 1000) * 1000 => 50 }
    after = lambda do |*arguments|
      json("reset", "billing", *arguments, "--topic", "orders:0", "--json")[:changes].first.values_at(:after, :bounded)
    end
    assert_equal [20, nil], after.call("--to", "2h")
    assert_equal [50, nil], after.call("--back", "30m")
    assert_equal [50, nil], after.call("--to", Time.at(now - 6000).utc.iso8601)
    assert_equal [60, nil], after.call("--to", Time.at(now - 500).utc.iso8601), "after the last message"
    assert_equal [30, nil], after.call("--to", "30")
    assert_equal [10, "beginning"], after.call("--to", "3")
    assert_equal [60, "end"], after.call("--shift", "+100")
    assert_match(/bounded to the end of the log/, pelton("reset", "billing", "--to", "99", "--all-topics").first)
    text, = pelton("reset", "billing", "--shift", "1", "--all-topics")
    assert_match(/^orders +2 +- +- +- +- +no committed offset$/, text)
  end

  def test_reset_refuses_live_members_and_says_where_they_are
    live("billing")
    text, = pelton("reset", "billing", "--to", "end", "--all-topics")
    assert_includes text, "group billing has live members (2); stop them first"
    assert_match(/^web-1 +10\.0\.0\.1 /, text)
    text, error = pelton("reset", "billing", "--to", "end", "--all-topics", "--apply", code: 1)
    assert_equal "pelton: nothing was changed: group billing has live members (2); stop them first\n", error
    refute_includes text, "applied"
    @out = StringIO.new
    cli_json, = pelton("reset", "billing", "--to", "end", "--all-topics", "--apply", "--json", code: 1)
    data = JSON.parse(cli_json, symbolize_names: true)
    assert_equal [false, %w[10.0.0.1 10.0.0.2]], [data[:applied], data[:live_members].map { |member| member[:host] }]
    refute_predicate self, :changed?
  end

  def test_reset_of_wrong_arguments
    refused(/the position: give one of --to, --back, --shift/, "reset", "billing", "--all-topics")
    refused(/the position: give one of/, "reset", "billing", "--to", "end", "--shift", "1", "--all-topics")
    refused(/--topic: give --topic or --all-topics/, "reset", "billing", "--to", "end")
    refused(/--topic: give --topic or/, "reset", "billing", "--to", "end", "--all-topics", "--topic", "orders")
    refused(/--to = "yesterday": expected beginning, end, an offset, a time/, "reset", "billing", "--to", "yesterday")
    refused(/--back = "5": expected a duration/, "reset", "billing", "--back", "5")
    refused(/--topic = "a:x": expected TOPIC or TOPIC:0,1/, "reset", "billing", "--to", "end", "--topic", "a:x")
    refused(/partition = 7: topic orders has/, "reset", "billing", "--to", "end", "--topic", "orders:7")
    refused(/Unknown topic/, "reset", "billing", "--to", "end", "--topic", "nope")
    refused(/GROUP: is missing/, "reset", "--to", "end")
    refute_predicate self, :changed?
  end

  def test_reset_creates_a_group_only_when_told
    refused(/new: unknown group/, "reset", "new", "--to", "end", "--topic", "bills", "--apply")
    text, = pelton("reset", "new", "--to", "end", "--topic", "bills", "--create")
    assert_match(/^bills +0 +- +3 +- +-$/, text)
    refute_predicate self, :changed?
    pelton("reset", "new", "--to", "end", "--topic", "bills", "--topic", "orders:2", "--create", "--apply")
    assert_equal({ ["orders", 2] => 5, ["bills", 0] => 3 }, @kafka.offsets_of("new").sort.reverse.to_h)
  end

  # --- copy ---

  def test_copy
    text, = pelton("copy", "billing", "new")
    assert_match(/^orders +0 +- +40 +- +-$/, text)
    refute_includes @kafka.commits, "new"
    assert_equal true, json("copy", "billing", "new", "--apply", "--json")[:applied]
    assert_equal @kafka.commits["billing"], @kafka.commits["new"]
  end

  def test_copy_refuses_offsets_and_live_members_of_the_other_group
    @kafka.commits["new"] = { ["orders", 0] => [50, ""] }
    refused(/TO = "new": has committed offsets; --overwrite replaces them/, "copy", "billing", "new")
    refused(/to = "billing": is the group to copy from/, "copy", "billing", "billing")
    assert_match(/^orders +0 +50 +40 +0 +10$/, pelton("copy", "billing", "new", "--overwrite").first)
    refused(/topics = .*bills.*: group billing has no committed/, "copy", "billing", "other", "--topic", "bills")
    live("new")
    refused(/group new has live members \(2\)/, "copy", "billing", "new", "--overwrite", "--apply")
    refute_predicate self, :changed?
    @kafka.members.clear
    pelton("copy", "billing", "new", "--topic", "orders:1", "--apply")
    assert_equal({ ["orders", 0] => 50, ["orders", 1] => 20 }, @kafka.offsets_of("new"))
  end

  # --- delete ---

  def test_delete_asks
    _, error = pelton("delete", "billing", code: 1, input: Terminal.new("n\n"))
    assert_includes error, "delete group billing with its 2 committed offsets? [y/N] "
    assert_includes error, "nothing was deleted"
    refused(/--yes: is needed/, "delete", "billing")
    refute_predicate self, :changed?
    assert_equal "deleted group billing with its 2 committed offsets\n",
                 pelton("delete", "billing", input: Terminal.new("y\n")).first
    refute_includes @kafka.commits, "billing"
  end

  def test_delete_of_several_groups_deletes_all_or_none
    live("web")
    text, error = pelton("delete", "billing", "web", "--yes", code: 1)
    assert_match(/web-1 +10\.0\.0\.1/, text)
    assert_includes error, "nothing was deleted: group web has live members (2)"
    refute_predicate self, :changed?
    @kafka.members.clear
    @kafka.commits["web"] = { ["bills", 0] => [1, ""] }
    assert_equal({ deleted: [{ group: "web", offsets: [{ topic: "bills", partition: 0 }] },
                             { group: "billing", offsets: [{ topic: "orders", partition: 0 },
                                                           { topic: "orders", partition: 1 }] }] },
                 json("delete", "web", "billing", "--yes", "--json"))
  end

  def test_lag_of_a_group_without_commits_is_never_above
    live("new", [["bills", 0]])
    assert_match(/^new +bills +0 +- +3 +-$.*^new: no committed offsets in 1 partition$/m,
                 pelton("lag", "new", "--max", "-1").first)
  end

  def test_delete_that_fails_for_one_group_tells_which_were_deleted
    @kafka.commits["other"] = { ["bills", 0] => [1, ""] }
    deletes = @answers.fetch(:delete_group)
    refusal = Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "not allowed")
    @answers[:delete_group] = ->(id) { id == "billing" ? [[id, refusal]] : deletes.call(id) }
    text, error = pelton("delete", "billing", "other", "--yes", code: 1)
    assert_equal "deleted group other with its 1 committed offset\n", text
    assert_match(/^pelton: billing: not allowed/, error)
    refute @kafka.commits.key?("other")
  end

  def test_name_of_a_group_with_control_characters_does_not_reach_the_terminal
    odd = "a\e[31mb\nc"
    @kafka.commits[odd] = { ["orders", 0] => [40, ""] }
    live(odd)
    [["reset", odd, "--to", "end", "--all-topics", 0], ["delete", odd, "--yes", 1], ["show", "a\e[31mb", 1],
     ["lag", odd, "--max", "0", 1], ["copy", "billing", odd, "--overwrite", 0]].each do |*arguments, code|
      printed = pelton(*arguments, code: code).join
      refute_includes printed, "\e", arguments.first
      assert_includes printed, 'a\e[31mb\nc', arguments.first
    end
  end

  def test_delete_of_offsets
    assert_includes pelton("delete", "billing", "--topic", "orders:0", "--yes").first,
                    "deleted 1 committed offset of group billing (orders 0)"
    assert_equal({ ["orders", 1] => 20 }, @kafka.offsets_of("billing"))
    refused(/"bills": group billing has no committed offsets there/, "delete", "billing", "--topic", "bills", "-y")
    live("billing")
    refused(/group billing has live members; stop them first \(2: web-1 on 10.0.0.1/,
            "delete", "billing", "--topic", "orders", "--yes")
  end
end
