# frozen_string_literal: true

require "test_helper"
require "logger"
require "stringio"
require "support/server_kit"

module ConsumersElsewhere
  class InvoicesConsumer < Pelton::Consumer
    def consume; end
  end
end

# What a server says about the methods and the name of a consumer class when it starts.
class ConsumerMethodsTest < Minitest::Test
  include ServerKit

  Orders = Class.new(Pelton::Consumer) { def consume; end }

  # A class with these methods, and what the routes say about it.
  def made(code, parent = Pelton::Consumer) = Class.new(parent) { class_eval(code, __FILE__, __LINE__) }

  def fault(consumer, &words)
    routing = Pelton::Routing.new.draw { topic("orders", to: consumer, &words) }
    config = Pelton::Config.new.tap { |settings| settings.group_id = "g" }
    assert_raises(Pelton::ConfigError) { routing.groups(config) }.message
  end

  def unused(consumer) = Pelton::Routing::ConsumerMethods.unused(consumer)

  def test_class_with_a_method_of_another_framework_gets_an_error_with_the_right_name
    process = "has no method consume or process: rename %s to process, which gets one message"
    consume = "has no method consume or process: rename %s to consume, which reads `messages`"
    { "def perform(id, total); end" => [process, "perform"], "def on_message(message); end" => [process, "on_message"],
      "def call(message); end" => [process, "call"], "private def work(message) = 1" => [process, "work"],
      "def process_batch(messages); end" => [consume, "process_batch"],
      "def handle_messages(list); end" => [consume, "handle_messages"],
      "def proces(message); end" => [process, "proces"], "def consum; end" => [consume, "consum"] }
      .each { |code, (text, name)| assert_includes fault(made(code)), format(text, name), code }
    assert_match(/has no method consume or process: define one of them\z/, fault(made("def total = 1")))
  end

  # Each call would raise an ArgumentError, and the message would be retried without end.
  def test_method_whose_arguments_do_not_fit_is_refused
    none = "needs arguments, but Pelton passes none"
    { "def consume(messages); end" => "consume that #{none}: read `messages`, or define process(message) instead",
      "def process; end" => "process that must take one argument: the message",
      "def process(one, two); end" => "process that must take one argument: the message",
      "def process(message, to:); end" => "process that must take one argument: the message",
      "def consume; end; def revoked(partitions); end" => "revoked that #{none}",
      "def consume; end; def around = yield" => "around that must take one argument: the name of the action",
      "def consume; end; def initialize(db); end" => "initialize that #{none}: do its work in `assigned`" }
      .each { |code, text| assert_match(/has a method #{Regexp.escape(text)}\z/, fault(made(code)), code) }
  end

  def test_method_whose_optional_arguments_fit_is_fine
    ["def consume(*); end", "def process(message, count = 1, to: nil); end", "def consume; end; def around(*) = yield",
     "def process(...); end", "def consume(hurry: false); end"].each do |code|
      routing = Pelton::Routing.new.draw { topic("orders", to: Class.new(Pelton::Consumer) { class_eval(code) }) }
      assert_equal 1, routing.groups(Pelton::Config.new.tap { |settings| settings.group_id = "g" }).size, code
    end
  end

  def test_missing_tick_names_the_method_that_is_meant
    text = "has no method tick, which `tick_every` calls: "
    { "def consume; end; def on_tick; end" => "rename on_tick to tick",
      "def consume; end; def ticks; end" => "rename ticks to tick",
      "def consume; end" => "define it" }
      .each { |code, advice| assert_includes fault(made(code)) { tick_every 5 }, text + advice }
  end

  def test_hooks_of_other_frameworks_are_reported_with_the_right_name
    code = %w[on_revoked on_shutdown eofed initialized on_tick].map { |name| "def #{name}; end" }
    found = unused(made("def consume; end; #{code.join(";")}; def wrap(action) = yield; def on_failure(error); end"))
    assert_equal({ on_revoked: "rename it to revoked", on_shutdown: "rename it to shutdown",
                   eofed: "rename it to reached_end", initialized: "rename it to assigned",
                   on_tick: "rename it to tick", wrap: "rename it to around",
                   on_failure: "use `on_failure` in the route" }, found)
  end

  def test_misspelled_hooks_are_reported
    { revoke: :revoked, on_revoke: :revoked, shut_down: :shutdown, shutdwon: :shutdown, asigned: :assigned,
      reach_end: :reached_end }.each do |name, hook|
      assert_equal({ name => "rename it to #{hook}" }, unused(made("def consume; end; def #{name}; end")))
    end
    assert_equal({ arround: "rename it to around" }, unused(made("def consume; end; def arround(action) = yield")))
  end

  def test_ordinary_methods_are_not_reported
    ["def ticket; end", "def stick; end", "def round(sum); end", "def assigned?; end", "def revoked!; end",
     "def revoke(license); end", "def assign(order); end", "def shutdown_at; end", "def processed; end",
     "def consumed; end", "def perform; end", "def total(order); end", "def teardown=(value); end",
     "private def on_revoked; end", "def on_revoked; end; def revoked = on_revoked",
     "def wrap(text) = text; def lines = messages.map { |message| wrap(message) }",
     "def teardown; end; def done = send(:teardown)",
     "def before_consume; end; private def begin_all = [1].each { before_consume }"]
      .each { |code| assert_empty unused(made("def consume; end; #{code}")), code }
    ["def consumed; end", "def consumer; end", "def ticks; end", "attr_reader :revoke, :assign"].each do |code|
      assert_empty unused(made("def process(message); end; #{code}")), code
    end
    concern = Module.new { def initialized; end }
    assert_empty unused(made("def consume; end").include(concern)), "of a module, which others use, too"
  end

  def test_methods_of_the_common_parent_class_count
    parent = made("def on_revoked; end")
    assert_equal [:on_revoked], unused(made("def consume; end", parent)).keys
    assert_empty unused(made("def consume; end; def revoked; end", parent))
  end

  # --- what a start says ---

  def test_start_warns_once_of_a_method_that_is_never_called
    consumer = made("def consume; end; def on_revoked; end")
    self.class.const_set(:Named, consumer)
    app.routes do
      topic("one", to: consumer)
      topic("two", to: consumer) { retry_in 5 }
    end
    start
    told = event("consumer.method_unused")
    assert_equal [consumer, :on_revoked, "rename it to revoked"], told.payload.values_at(:consumer, :method, :reason)
    assert_equal [2, "ConsumerMethodsTest::Named#on_revoked is never called: rename it to revoked, or make it private"],
                 Pelton::EventText.of(told)
    assert app.stop
    assert_empty(Array.new(@events.size) { @events.pop }.select { |event| event.name == "consumer.method_unused" })
  ensure
    self.class.send(:remove_const, :Named)
  end

  def test_default_log_has_the_warning
    bus = Pelton::Notifications.new
    log = StringIO.new
    config = Pelton::Config.new.tap { |settings| settings.logger = Logger.new(log) }
    Pelton::FailureLog.new(config, bus)
    bus.publish("consumer.method_unused", consumer: Orders, method: :eofed, reason: "rename it to reached_end")
    assert_includes log.string, "Orders#eofed is never called: rename it to reached_end, or make it private"
  end

  # --- names of classes ---

  def test_misspelled_name_of_a_consumer_class_gets_a_suggestion
    { "ConsumerMethodsTest::Order" => "ConsumerMethodsTest::Orders",
      "InvoicesConsumer" => "ConsumersElsewhere::InvoicesConsumer",
      "ConsumersElsewhere::InvoiceConsumer" => "ConsumersElsewhere::InvoicesConsumer" }
      .each { |given, right| assert_match(/uninitialized constant \S+, did you mean #{right}\?\z/, fault(given)) }
    assert_match(/"nothing_alike": wrong constant name nothing_alike\z/, fault("nothing_alike"))
  end

  # Rails loads a class when it is used.
  def test_misspelled_name_of_a_class_that_is_not_loaded_yet_gets_a_suggestion
    Object.autoload(:LateConsumerOfTest, "/nowhere/late.rb")
    assert_includes fault("LateConsumersOfTest"), "did you mean LateConsumerOfTest?"
  ensure
    Object.send(:remove_const, :LateConsumerOfTest)
  end

  def test_consumer_as_a_symbol_is_refused_with_what_to_write
    assert_includes assert_raises(Pelton::ConfigError) { Pelton::Routing.new.draw { topic "a", to: :Orders } }.message,
                    "topic a, to = :Orders: expected a consumer class, or its name as a String"
  end

  # --- filters of a start ---

  def test_filter_that_names_nothing_gets_a_suggestion
    app.routes { topic "orders", to: Orders }
    { { groups: ["gg"] } => /gg: unknown group, (did you mean|known are) g/,
      { topics: ["order"] } => /order: unknown topic, did you mean orders\?/,
      { topics: [:orders] } => /topics = \[:orders\]: expected an Array of Strings/ }
      .each { |filter, text| assert_match text, assert_raises(Pelton::ConfigError) { app.start(**filter) }.message }
  end
end
