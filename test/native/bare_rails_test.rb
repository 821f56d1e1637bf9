# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# A process may have `Rails` without an application: a gem of Rails that is used alone defines it, and so does minitest
# where railties is installed. Pelton works there as it does without Rails.
class BareRailsTest < Minitest::Test
  include NativeKit

  # What there may be instead of an application.
  RAILS = {
    "an_empty_module" => "module Rails; end",
    "no_application_and_no_logger" => "module Rails; def self.application = nil; def self.logger = nil; end",
    "the_gem_alone" => "require 'rails'"
  }.freeze

  RAILS.each do |what, code|
    define_method("test_with_#{what}") do
      status, output = in_process(<<~RUBY)
        begin
          #{code}
        rescue LoadError
          say "no Rails here"
          exit
        end
        require "pelton"
        require "pelton/testing"
        app = Pelton::App.new
        app.configure { |config| config.kafka = SERVER }
        app.configure { |config| config.group_id = "g" }
        seen = Thread::Queue.new
        app.routes { topic("t", to: Class.new(Pelton::Consumer) { define_method(:consume) { seen << messages.size } }) }
        app.start
        app.producer.produce_sync(topic: "t", payload: "x")
        say seen.pop
        app.stop
        app.producer.produce_async(topic: "t", payload: "y" * 2_000_000) rescue say($!.class)
        nowhere = Pelton::App.new
        nowhere.configure { |config| config.kafka = { **NOWHERE, "message.timeout.ms" => 100 } }
        nowhere.producer.produce_async(topic: "t", payload: "x") # its failure is told to nobody in particular
        nowhere.producer.flush(timeout: 5)
        [nowhere, app].each(&:close)
        say "fine"
      RUBY
      skip "no gem railties for Ruby #{RUBY_VERSION}" if output.start_with?("no Rails here")
      assert_predicate status, :success?, output
      assert_match(/^1\n/, output)
      assert_match(/^fine$/, output)
      refute_match(/NoMethodError|undefined method/, output)
    end
  end

  # Without a logger of its own, such a Rails does not bring the default one's lines into the output of tests.
  def test_failures_in_a_test_are_not_logged_where_rails_has_no_logger
    status, output = in_process(<<~RUBY)
      module Rails; def self.logger = nil; end
      require "pelton/testing/minitest"
      Pelton.configure { |config| config.group_id = "g" }
      failing = Class.new(Pelton::Consumer) { def process(_message) = raise(IOError, "no answer") }
      Pelton.routes { topic("t", to: failing) { retries 1, then: :skip } }
      session = Pelton::Testing::Session.open
      Object.new.extend(Pelton::Testing::Helpers).produce("t", "x")
      session.close
      say "fine"
    RUBY
    assert_predicate status, :success?, output
    assert_equal "fine\n", output
  end
end
