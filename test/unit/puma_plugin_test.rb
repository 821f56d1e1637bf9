# frozen_string_literal: true

require_relative "../test_helper"
begin
  require "puma"
  require "puma/plugin"
rescue LoadError
  nil # this Ruby has no gem puma: each test says so
end

# `plugin :pelton` with the names of Puma 5 and of Puma 7, which renamed them. test/integration/rails_puma.rb runs a
# real Puma.
class PumaPluginTest < Minitest::Test
  # Keeps the names of the events and hooks that were asked for, and knows no others.
  class Hooks
    attr_reader :asked

    def initialize(*names)
      @asked = []
      names.each { |name| define_singleton_method(name) { |&_| @asked << name } }
    end
  end

  Launcher = Struct.new(:events, :options, :config)

  # Puma's configuration: yields the options of the user, of the file and the defaults.
  Configuration = Struct.new(:file) do
    def configure = yield(nil, file, nil)
  end

  def setup
    skip "no gem puma for Ruby #{RUBY_VERSION}" unless defined?(Puma::Plugins)
  end

  def start(hooks, workers)
    Puma::Plugins.find("pelton").new.start(Launcher.new(hooks, { workers: workers }, Configuration.new(hooks)))
    hooks.asked
  end

  {
    "puma_5" => [%i[on_booted on_stopped on_restart], %i[on_worker_boot on_worker_shutdown]],
    "puma_7" => [%i[after_booted after_stopped before_restart], %i[before_worker_boot before_worker_shutdown]]
  }.each do |version, (events, hooks)|
    define_method("test_one_process_of_#{version}") { assert_equal events, start(Hooks.new(*events), 0) }
    define_method("test_workers_of_#{version}") { assert_equal hooks, start(Hooks.new(*hooks), 2) }
  end

  def test_names_that_are_deprecated_are_not_used
    old = %i[on_booted on_stopped on_restart]
    new = %i[after_booted after_stopped before_restart]
    assert_equal new, start(Hooks.new(*old, *new), 0)
  end
end
