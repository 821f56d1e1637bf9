# frozen_string_literal: true

require_relative "../test_helper"
require "stringio"
require "pelton/app"
require "pelton/cli/cli"
require "pelton/cli/commands/console"

# `pelton console` without IRB. (With it: test/integration/command_line.rb.)
class ConsoleCommandTest < Minitest::Test
  class Terminal < StringIO
    def tty? = true
  end

  # Stands for IRB.
  class Irb
    class << self
      attr_accessor :calls
    end

    WorkSpace = Struct.new(:binding)

    def self.setup(path, argv:) = calls << [:setup, path, argv]
    def self.conf = :conf
    def self.const_missing(name) = name == :Irb ? self : super

    def initialize(space) = @space = space
    def run(conf) = Irb.calls << [:run, @space.binding, conf]
  end

  def setup
    @app = Pelton::App.new
    @app.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.logger = nil
    end
    @out = StringIO.new
    @err = StringIO.new
  end

  def teardown = @app.close

  def run_command(*arguments, input: StringIO.new, **options)
    Pelton::CLI.new(arguments, app: @app, out: @out, err: @err, input: input, env: {}, **options).run
  end

  def console(input: StringIO.new, missing: nil)
    command = Pelton::CLI::Commands::Console.new("console", "", app: @app, out: @out, err: @err, input: input, env: {})
    command.define_singleton_method(:require) { |name| missing ? raise(missing) : name == "irb" || flunk(name) }
    command.call([])
  end

  def load_error(path)
    error = LoadError.new("cannot load such file -- #{path}")
    error.define_singleton_method(:path) { path }
    error
  end

  def test_console_runs_each_text_at_the_top_level_instead_of_irb
    assert_equal 0, run_command("console", "-e", "$console_test = [self.to_s]", "-e", "$console_test << __FILE__")
    assert_equal %w[main -e], $console_test # rubocop:disable Style/GlobalVars
    assert_equal ["", ""], [@out.string, @err.string]
  end

  def test_console_ends_with_1_if_the_text_raises_and_runs_nothing_more
    assert_equal 1, run_command("console", "-e", "raise KeyError, 'no such'", "-e", "raise 'more'")
    assert_match(/\Apelton: no such \(KeyError, -e:1/, @err.string)
  end

  def test_console_starts_irb_and_greets_a_terminal
    Irb.calls = []
    Object.const_set(:IRB, Irb)
    assert_equal 0, console(input: Terminal.new)
    assert_equal [[:setup, nil, []], [:run, TOPLEVEL_BINDING, :conf]], Irb.calls
    assert_match(/\APelton #{Regexp.escape(Pelton::VERSION)}, connection: config\.kafka\. Try Pelton\.admin/,
                 @out.string)
    @out.truncate(@out.pos = 0)
    assert_equal 0, console
    assert_equal "", @out.string
    @app.configure { |config| config.kafka = {} }
    console(input: Terminal.new)
    assert_match(/, no broker is known\. Try/, @out.string)
  ensure
    Object.send(:remove_const, :IRB)
  end

  def test_console_names_the_gem_that_is_missing
    assert_equal 1, console(missing: load_error("irb"))
    assert_equal "pelton: IRB is not installed: add gem \"irb\" to the Gemfile\n", @err.string
    assert_equal 1, console(missing: load_error("other"))
    assert_match(/cannot load such file -- other/, @err.string)
  end
end
