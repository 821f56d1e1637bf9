# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/cli"
require "open3"
require "rbconfig"
require "stringio"
require "tmpdir"

# How commands are found, and what their base class does for them.
class CommandTest < Minitest::Test
  class Probe < Pelton::CLI::Command
    class << self
      attr_accessor :script
    end

    details "Looks at a topic."
    example "pelton probe orders", "one topic"
    arguments "TOPIC", "[GROUP...]"
    option :max, "-m", "--max N", "at most", type: Integer, default: 5
    option :level, "--level LEVEL", "how much", choices: %w[low high]
    option :since, "--since TIME", "from when" do |text|
      Pelton::CLI::Values.duration("--since", text)
    end
    option :verbose, "--[no-]verbose", "say more"
    narrows
    confirms
    connects

    private

    def run = instance_exec(&self.class.script)
  end

  class TerminalIO < StringIO
    def tty? = true
    def winsize = [24, 80]
  end

  def setup
    require "pelton/cli/values"
    @app = Pelton::App.new(native: Fakes::Native.new.to_module)
    @app.config.logger = nil
    @out = StringIO.new
    @err = StringIO.new
  end

  def probe(*arguments, input: StringIO.new, env: {}, &script)
    Probe.script = script || -> { 0 }
    Probe.new("probe", "look at a topic", app: @app, out: @out, err: @err, input: input, env: env).call(arguments)
  end

  # Values that a command saw.
  def seen(*arguments)
    result = nil
    assert_equal(0, probe(*arguments) { result = [options, self.arguments] }, @err.string)
    result
  end

  # --- finding a command ---

  def cli(*arguments, commands: Pelton::CLI::COMMANDS)
    Pelton::CLI.new(arguments, app: @app, out: @out, err: @err, commands: commands, env: {}).run
  end

  TWO_WORDS = { "topics list" => "list topics", "topics show" => "show a topic", "info" => "print" }.freeze

  def test_command_of_two_words_lists_its_siblings_and_suggests
    assert_equal 0, cli("topics", commands: TWO_WORDS)
    assert_includes @out.string, "Usage: pelton topics COMMAND"
    assert_match(/topics list +list topics/, @out.string)
    refute_includes @out.string, "info"
    assert_equal 0, cli("topics", "--help", commands: TWO_WORDS)
    assert_equal 1, cli("topics", "lits", commands: TWO_WORDS)
    assert_includes @err.string, "topics lits: unknown command, did you mean topics list?"
  end

  def test_unknown_command_and_option_before_the_command_are_refused
    assert_equal 1, cli("inof")
    assert_includes @err.string, "inof: unknown command, did you mean info?"
    assert_equal 1, cli("nothing")
    assert_match(/nothing: unknown command, known are .*doctor, .*info/, @err.string)
    assert_equal 1, cli("-c", "5", "server")
    assert_includes @err.string, "-c: the command comes first: pelton COMMAND -c"
  end

  def test_every_command_loads_and_has_an_example_with_its_name
    Pelton::CLI::COMMANDS.each_key do |name|
      declared = Pelton::CLI.load(name).declared
      refute_empty declared[:examples], name
      declared[:examples].each { |call, _| assert_includes call, "pelton #{name}" }
    end
  end

  def test_arguments_are_utf8_whatever_the_locale_says
    name = "größe".dup.force_encoding(Encoding::US_ASCII)
    assert_equal 1, cli(name)
    assert_includes @err.string, "größe: unknown command"
    assert_equal 1, cli("info", "\xFF")
    assert_includes @err.string, 'pelton: an argument is not valid UTF-8: ["info", "\xFF"]'
  end

  def test_output_that_cannot_be_written_is_an_error
    program = 'require "pelton"; require "pelton/cli/cli"; ' \
              "Pelton::CLI.leave(Pelton::CLI.new(['--help'], app: Pelton.app).run)"
    said, status = Open3.capture2e("bash", "-c", "exec \"$@\" > /dev/full", "bash", RbConfig.ruby, "-w",
                                   "-I#{File.expand_path("../../lib", __dir__)}", "-e", program)
    assert_equal [1, "pelton: cannot write the output: No space left on device"], [status.exitstatus, said[/.*device/]]
  end

  # --- arguments and options ---

  def test_options_have_defaults_types_and_conversions
    options, arguments = seen("orders", "-m", "7", "--level", "low", "--since", "2m", "-g", "a", "-g", "b", "x")
    assert_equal %w[orders x], arguments
    assert_equal({ max: 7, level: "low", since: 120, include_groups: %w[a b], include_topics: [], verbose: nil },
                 options.slice(:max, :level, :since, :include_groups, :include_topics, :verbose))
    assert_equal 5, seen("orders").first[:max]
    assert_equal false, seen("orders", "--no-verbose").first[:verbose]
    assert_equal ["-x"], seen("--", "-x").last
  end

  {
    [] => "TOPIC: is missing: pelton probe TOPIC [GROUP...] [options]",
    %w[a --mux 3] => "--mux: unknown option, did you mean --max?",
    %w[a --no-verbsoe] => "--no-verbsoe: unknown option, did you mean --no-verbose?",
    %w[a --ver] => "--ver: is short for several options: see pelton probe --help",
    %w[a --max x] => '--max = "x": expected an Integer',
    %w[a -m x] => '-m = "x": expected an Integer',
    %w[a --level mid] => '--level = "mid": expected low, high',
    %w[a --since soon] => '--since = "soon": expected a duration, such as 30s',
    %w[a --max=x] => '--max = "x": expected an Integer',
    %w[a -mx] => '-m = "x": expected an Integer',
    %w[a --lev=mid] => '--lev = "mid": expected low, high',
    %w[a --passwrd=s3cret] => "--passwrd: unknown option",
    %w[a --yes=5] => "--yes: takes no value",
    %w[a --max] => "--max: needs a value: see pelton probe --help",
    %w[a --version] => "--version: unknown option"
  }.each do |arguments, message|
    define_method("test_arguments_#{arguments.join("_")}_are_refused") do
      assert_equal 1, probe(*arguments)
      assert_includes @err.string, "pelton: #{message}"
    end
  end

  def test_help_has_usage_details_options_and_examples
    assert_equal 0, probe("--help") { flunk }
    ["Usage: pelton probe TOPIC [GROUP...] [options]\n\nLook at a topic.\n\nLooks at a topic.\n", "-m, --max N",
     "at most (default: 5)", "how much (low, high)", "matches anything (repeatable)", "Connection:\n    -r, --require",
     "pelton probe orders  # one topic"].each { |text| assert_includes @out.string, text }
  end

  def test_subclass_adds_options_without_changing_its_superclass
    more = Class.new(Probe) do
      option :max, "--max N", "another"
      option :extra, "--extra", "more"
      no_json
    end
    assert_equal(1, more.declared[:options].count { |option| option.name == :max })
    assert_equal(%i[max extra], more.declared[:options].map(&:name).last(2))
    refute(Probe.declared[:options].any? { |option| option.name == :extra })
    assert(Probe.declared[:options].any? { |option| option.name == :json })
  end

  # --- exit codes ---

  def test_exit_codes_follow_the_end_of_run
    assert_equal 2, probe("a") { 2 }
    assert_equal 0, probe("a") { nil }
    assert_equal 1, probe("a") { failure("not today") }
    assert_equal 1, probe("a") { raise Pelton::ConfigError.new("x", 1, "is wrong") }
    assert_equal 1, probe("a") { raise "a bug" }
    assert_equal 130, probe("a") { raise Interrupt }
    assert_equal 130, probe("a") { raise SignalException, "TERM" }
    assert_equal 130, probe("a") { raise SignalException, "HUP" }
    assert_equal ["pelton: not today", "pelton: x = 1: is wrong"], @err.string.lines(chomp: true).first(2)
    assert_match(/^pelton: a bug \(RuntimeError, .*command_test\.rb/, @err.string)
  end

  def test_end_of_the_reader_is_no_error_unless_a_change_may_be_incomplete
    assert_equal 1, probe("a") { raise Errno::EPIPE }
    assert_match(/reader of the output is gone, and not everything may be done/, @err.string)
    reading = Class.new(Pelton::CLI::Command) { define_method(:run) { raise Errno::EPIPE } }
    assert_equal 0, reading.new("read", "read", app: @app, out: @out, err: @err).call([])
  end

  def test_errors_and_questions_print_no_control_characters
    assert_equal(1, probe("a") { failure("group a\e[31mb\r: is live\nand more") })
    assert_equal "pelton: group a\\e[31mb\\r: is live\nand more\n", @err.string
    assert_equal(7, probe("a", input: TerminalIO.new("y\n")) { confirm("delete \e[31m?") ? 7 : 8 })
    assert_includes @err.string, "delete \\e[31m? [y/N] "
  end

  def test_config_in_the_home_of_an_unknown_user_is_an_error_that_names_it
    assert_equal(1, probe("a", "--config", "~nosuchuser/pelton.yml") { app && 0 })
    assert_equal "pelton: --config = \"~nosuchuser/pelton.yml\": is no file that can be found\n", @err.string
  end

  def test_answer_that_is_not_utf8_is_no
    assert_equal(8, probe("a", input: TerminalIO.new("y\xFF\n")) { confirm("delete?") ? 7 : 8 })
  end

  def test_numbers_are_decimal
    assert_equal 10, seen("a", "--max", "010").first[:max]
    assert_equal(1, probe("a", "--max", "0x10"))
    assert_match(/--max = "0x10": expected an Integer/, @err.string)
  end

  def test_seconds_below_zero_are_refused_with_the_name_of_the_option
    timed = Class.new(Probe) { option :timeout, "--timeout SECONDS", "wait this long", type: Float }
    %w[-5 -0.1].each do |text|
      assert_equal 1, timed.new("timed", "wait", app: @app, out: @out, err: @err).call(["a", "--timeout", text])
      assert_includes @err.string, "pelton: --timeout = #{text.to_f}: expected a number >= 0\n"
    end
  end

  def test_clients_are_closed_at_the_end
    assert_equal(0, probe("a", "--bootstrap", "localhost:1") { app.producer && 0 })
    assert_predicate @app.producer, :closed?
  end

  # --- confirmation ---

  def test_confirm_asks_on_a_terminal
    { "y\n" => true, "yes\n" => true, "n\n" => false, "\n" => false, "" => false }.each do |answer, expected|
      assert_equal expected ? 7 : 8, probe("a", input: TerminalIO.new(answer)) { confirm("delete orders?") ? 7 : 8 }
    end
    assert_includes @err.string, "delete orders? [y/N] "
  end

  def test_confirm_without_a_terminal_needs_yes
    assert_equal 1, probe("a") { confirm("delete?") ? 0 : 8 }
    assert_includes @err.string, "--yes: is needed: there is no terminal to ask on"
    assert_equal 7, probe("a", "--yes") { confirm("delete?") ? 7 : 8 }
  end

  # --- the connection ---

  # What a command sees in a folder with these files.
  def connected(*arguments, files: {}, env: {}, script: nil)
    result = nil
    Dir.mktmpdir do |folder|
      files.each { |name, text| File.write(File.join(folder, name), text) }
      Dir.chdir(folder) do
        code = probe("a", *arguments, env: env) do
          result = [connected_app.config.kafka.to_h, connection.source, connection.file]
          0
        end
        assert_equal 0, code, @err.string
      end
    end
    result
  end

  def refused(*arguments, files: {}, env: {})
    Dir.mktmpdir do |folder|
      files.each { |name, text| File.write(File.join(folder, name), text) }
      Dir.chdir(folder) { assert_equal(1, probe("a", *arguments, env: env) { connected_app && 0 }) }
    end
    @err.string
  end

  FILE = "bootstrap.servers: file:1\nacks: 1\n"

  def test_typed_options_win_over_the_app
    @app.config.kafka = { "bootstrap.servers" => "app:1", "client.rack" => "a" }
    assert_equal [{ "bootstrap.servers" => "app:1", "client.rack" => "a" }, "config.kafka", nil],
                 connected(env: { "PELTON_BOOTSTRAP" => "env:1" }, files: { "pelton.yml" => FILE })
    assert_equal [{ "bootstrap.servers" => "typed:1", "client.rack" => "b" }, "--bootstrap", nil],
                 connected("--bootstrap", "typed:1", "-X", "client.rack=b")
  end

  def test_typed_address_replaces_the_apps_older_name_of_it
    @app.config.kafka = { "metadata.broker.list" => "app:1" }
    assert_equal [{ "bootstrap.servers" => "typed:1" }, "--bootstrap", nil], connected("--bootstrap", "typed:1")
  end

  def test_config_file_and_single_options
    files = { "prod.yml" => FILE, "pelton.yml" => "bootstrap.servers: other:1" }
    assert_equal [{ "bootstrap.servers" => "file:1", "acks" => "1" }, "prod.yml", "prod.yml"],
                 connected("--config", "prod.yml", files: files)
    @app = Pelton::App.new(native: Fakes::Native.new.to_module)
    assert_equal [{ "acks" => "all", "bootstrap.servers" => "typed:1" }, "--bootstrap", "prod.yml"],
                 connected("--config", "prod.yml", "--bootstrap", "typed:1", "-X", "acks=all", files: files)
  end

  def test_environment_then_default_file_when_nothing_else_names_a_broker
    env = { "PELTON_BOOTSTRAP" => "env:1" }
    assert_equal [{ "bootstrap.servers" => "env:1" }, "PELTON_BOOTSTRAP", nil],
                 connected(env: env, files: { "pelton.yml" => FILE })
    @app = Pelton::App.new(native: Fakes::Native.new.to_module)
    assert_equal [{ "bootstrap.servers" => "file:1", "acks" => "1", "client.rack" => "a" }, "./pelton.yml",
                  "./pelton.yml"], connected("-X", "client.rack=a", files: { "pelton.yml" => FILE })
  end

  def test_files_of_the_app_are_loaded
    $app = @app # rubocop:disable Style/GlobalVars -- for the file
    files = { "app.rb" => '$app.config.kafka = { "bootstrap.servers" => "loaded:1" }' }
    assert_equal [{ "bootstrap.servers" => "loaded:1" }, "config.kafka", nil], connected("-r", "./app.rb", files: files)
  end

  def test_connection_without_a_broker_is_refused
    assert_includes refused, "the cluster: is not known: use --bootstrap HOST:PORT, PELTON_BOOTSTRAP, --config FILE"
    assert_includes refused(env: { "PELTON_BOOTSTRAP" => "" }), "the cluster: is not known"
  end

  def test_wrong_options_are_refused_without_showing_secrets
    assert_includes refused("-X", "acsk=1"), 'acsk = "1": unknown option of librdkafka; did you mean "acks"?'
    assert_includes refused("-X", "s3cret"), "-X: expected NAME=VALUE"
    assert_includes refused("--bootstrap", " "), 'bootstrap.servers = "": is empty'
    assert_includes refused("-X", "bootstrap.servers="), 'bootstrap.servers = "": is empty'
    assert_includes refused("--config", "nowhere.yml"), '--config = "nowhere.yml": No such file'
    assert_includes refused("--config", "a.yml", files: { "a.yml" => "- 1" }), "a.yml: expected librdkafka's options"
    assert_includes refused("--config", "a.yml", files: { "a.yml" => "a: [" }), "a.yml: is not valid YAML"
    assert_includes refused("--config", "a.yml", files: { "a.yml" => "a: <%= 1 %>" }), "a.yml: contains ERB"
    assert_includes refused(files: { "pelton.yml" => "sasl.password: [s3cret]" }), "sasl.password = [hidden]"
    refute_includes @err.string, "s3cret"
  end

  def test_options_after_a_client_was_opened_are_refused
    $app = @app # rubocop:disable Style/GlobalVars -- for the file
    text = '$app.config.kafka = { "bootstrap.servers" => "a:1" }; $app.producer'
    assert_includes refused("-r", "./early.rb", "--bootstrap", "b:1", files: { "early.rb" => text }), "comes too late"
  end

  def test_variable_is_ignored_if_the_app_has_opened_a_client_with_brokers_elsewhere
    @app.config.freeze
    assert_equal(0, probe("a", env: { "PELTON_BOOTSTRAP" => "env:1" }) { app && 0 }, @err.string)
    assert_empty @app.config.kafka
  end
end
