# frozen_string_literal: true

# once: the guides are the same for each Ruby

require "test_helper"
require "json"
require "stringio"
require "tmpdir"
require "pelton/testing"
require "support/forked_child"
require "support/guides"
require "support/registry_double"

# Each Ruby block of README.md and the guides runs, in a process of its own beside an embedded cluster of its own, as it
# stands there but for addresses, times and `…`: nothing in it is misspelt, gone, warned of or raised, and it does what
# it is there for.
class GuidesTest < Minitest::Test
  include ForkedChild

  TOPICS = { "orders" => 4, "payments" => 2, "customers" => 1, "clicks" => 1, "invoices" => 4, "paid" => 1,
             "orders.eu" => 4, "orders.dead" => 4, "logs.web" => 1, "totals" => 4, "orders.retry.60" => 4,
             "orders.retry.600" => 4, "invoices.dead" => 4 }.freeze
  SCHEMA = JSON.generate(type: "record", name: "Order", fields: [
                           { name: "id", type: "int" },
                           { name: "kind", type: { type: "enum", name: "Kind", symbols: %w[PAID OPEN] } }
                         ])
  PAID = JSON.generate(type: "order.paid", id: 7, total: 12.5)
  MSGPACK = "\x82\xA4type\xAAorder.paid\xA5money\xD4\x01\x05".b # the last: an extension of type 1
  CONSUME = "def consume = messages.each { |message| SEEN << message }"
  RACTORS = Pelton::Parallel::RactorWorker.available?
  # What consumers, and what they use, leave behind.
  SEEN = Thread::Queue.new

  # {page, words of a block => why it is not run}
  NOT_RUN = {
    ["README.md", 'gem "pelton"'] => "a line of a Gemfile",
    ["CONTRIBUTING.md", 'require "support/broker"'] => "scenarios of test/integration do that"
  }.freeze

  # What blocks take for granted; defined where a block names it and does not define it itself.
  GIVEN = {
    "OrdersConsumer" => "class OrdersConsumer < Pelton::Consumer; #{CONSUME}; end",
    "ArchiveConsumer" => "class ArchiveConsumer < Pelton::Consumer; #{CONSUME}; end",
    "AuditConsumer" => "class AuditConsumer < Pelton::Consumer; #{CONSUME}; end",
    "Order" => "Order = Struct.new(:type, :id, :total, keyword_init: true)",
    "OrderDecoder" => "class OrderDecoder; def call(message) = Order.new(**message.payload); end",
    "UnknownCustomer" => "UnknownCustomer = Class.new(StandardError)",
    "Tracer" => "module Tracer; def self.span(_name) = yield; end",
    "Trace" => "module Trace; def self.id = '42'; end",
    "PRICES" => "PRICES = Object.new.tap { |prices| def prices.refresh = SEEN << :refreshed }",
    "Money" => "module Money; def self.load(bytes) = [:money, bytes]; end",
    "Invoice" => "class Invoice; def self.call(order) = order.to_s; end",
    "Rails" => "module Rails; def self.application = self; def self.executor = self; def self.wrap = yield; end",
    "ShipOrder" => "class ShipOrder; def self.call(id) = Pelton.producer.produce_sync(topic: 'shipped', " \
                   "payload: { id: id }.to_json); end",
    "REGISTRY" => 'REGISTRY = Pelton::Registry.new("https://one:8081")',
    "orders" => "orders = [{ 'id' => 1 }.freeze, { 'id' => 2 }.freeze].freeze",
    "producer" => "producer = Pelton.producer",
    "config" => "config = Pelton.config"
  }.freeze

  # {page, words of a block => how it is run}; one that is not here is run as it is
  #   within: what stands around it · change: {what stands there => what is run in its place}
  #   before, after: what is run here; the latter is the proof that the block does what it says
  AROUND = {
    ["README.md", "class OrdersConsumer"] => {
      after: lambda do
        Pelton.start
        Pelton.producer.produce_sync(topic: "orders", key: "7", payload: PAID)
        eventually(20) { $stdout.string == "order 7: 12.5\n" }
      end
    }
  }.freeze

  # The same for docs/guides/x.md, from test/support/guides/x.rb: {words of a block => how it is run}. Besides,
  #   not_run: why it is not run · given: {name => code}, as GIVEN · output: false, if what is printed differs each time
  PAGES = Dir.glob(File.join(Guides::ROOT, "test/support/guides/*.rb")).to_h do |path|
    ["docs/guides/#{File.basename(path, ".rb")}.md", class_eval(File.read(path), path)]
  end.freeze
  ENTRIES = PAGES.flat_map { |page, rows| rows.map { |words, how| [[page, words], how] } }.to_h.merge(AROUND).freeze

  Guides.all.each do |snippet|
    define_method("test_#{snippet.name}") { not_run?(snippet) ? compile(snippet) : try(snippet) }
  end

  def test_the_tables_name_blocks_that_are_there
    [*NOT_RUN.keys, *ENTRIES.keys].each { |page, words| Guides.find(page, words) }
    assert_operator Guides.all.size, :>=, 25
  end

  def test_output_below_a_block_is_compared_with_what_it_prints
    page = "```ruby\nputs 1\n```\n\nIt prints:\n\n```text\none … 42\ntwo\n```\n"
    assert_equal "one … 42\ntwo\n", page.split("puts 1\n```\n").last[Guides::OUTPUT, 1]
    assert_nil "\n\nAnother topic.\n\n```text\none\n```\n"[Guides::OUTPUT, 1]
    check_output("one … 42\ntwo\n", "one (or more) 42\ntwo\n")
    assert_raises(Minitest::Assertion) { check_output("one … 42\ntwo\n", "one 42\ntwo\n") }
    assert_raises(Minitest::Assertion) { check_output("one\n", "one\ntwo\n") }
  end

  # --- for the tables: in the child ---

  # A local variable of the block.
  def set(name, value) = TOPLEVEL_BINDING.local_variable_set(name, value)

  def define(code) = TOPLEVEL_BINDING.eval(code)

  # So many messages in each partition of a topic.
  def fill(topic, count, cluster = @cluster)
    app = Pelton::App.new
    app.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers } }
    rows = Array.new(TOPICS[topic]) { |partition| { topic: topic, payload: PAID, partition: partition } } * count
    app.producer.produce_many_sync(rows)
    app.close
  end

  # The messages of a topic, as a subscription has them.
  def consumed(topic)
    fill(topic, 1)
    @subscription = Pelton::Subscription.new(Pelton.config, group_id: "guide")
    @subscription.subscribe([topic])
    batch = nil
    eventually(20) { (batch = @subscription.poll(1))&.first == :batch }
    batch.last.messages
  end

  def read(topic, count) = @cluster.messages(topic, count, timeout: 60)

  # Runs the app until consumers have seen `count` messages, and what the block says of all that they left behind; the
  # latter. messages: {"orders" => payload}
  def serve(messages, count: 1)
    Pelton.start
    messages.each { |topic, payload| Pelton.producer.produce_sync(topic: topic, payload: payload) }
    all = []
    eventually(20, -> { "what is seen: #{all}, errors: #{@errors}" }) do
      all << SEEN.pop until SEEN.empty?
      all.grep(Pelton::Message).size >= count && (!block_given? || yield(all))
    end
    return all if count.zero?

    assert Pelton.stop
    all.grep(Pelton::Message)
  end

  def serve_orders(&block)
    define("class OrdersConsumer; #{CONSUME}; end")
    Pelton.routes { topic("orders", to: OrdersConsumer) }
    serve({ "orders" => PAID }, &block)
  end

  private

  def snippet_of(table, snippet)
    table.find { |(page, words), _| page == snippet.page && snippet.code.include?(words) }&.last
  end

  def not_run?(snippet) = snippet_of(NOT_RUN, snippet) || (snippet_of(ENTRIES, snippet) || {})[:not_run]

  # A syntax error raises.
  def compile(snippet)
    assert RubyVM::InstructionSequence.compile(snippet.code, snippet.path, snippet.path, snippet.line)
  end

  def try(snippet)
    said = in_child(limit: 30) do
      how = snippet_of(ENTRIES, snippet) || {}
      output = how.fetch(:output, true)
      beside_a_cluster(snippet) { run_block(snippet, **how.except(:output)) }
      check_output(snippet.output, $stdout.string) if snippet.output && output
      "fine"
    rescue Exception => e # rubocop:disable Lint/RescueException
      e.full_message(highlight: false)
    end
    assert said == "fine\n", said
  end

  def beside_a_cluster(snippet, &block)
    $stdout = StringIO.new
    @errors = []
    @cluster = Pelton::Testing::Cluster.start(topics: TOPICS)
    unless snippet.code.include?("Pelton.configure")
      Pelton.configure { |config| config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers } }
      Pelton.configure { |config| config.group_id = "guide" }
    end
    # librdkafka's own tell of the machine, not of the guides.
    Pelton.subscribe("error.occurred") { |event| @errors << event[:error] unless event[:source] == "kafka" }
    Dir.mktmpdir { |folder| Dir.chdir(folder, &block) }
    Pelton.close
    assert_empty [*@errors, *Guard.warnings]
  end

  # expected: what the page says; `…` in it stands for anything on its line.
  def check_output(expected, printed)
    lines = expected.lines.map { |line| line.split("…", -1).map { |part| Regexp.escape(part) }.join(".*") }
    assert_match(/\A#{lines.join}\z/, printed)
  end

  def run_block(snippet, within: "%s", change: {}, before: nil, after: nil, raises: nil, given: {})
    Dir.mkdir("schemas")
    File.write("schemas/orders-value.avsc", SCHEMA)
    ENV["REGISTRY_PASSWORD"] = "secret"
    set(:test, self)
    instance_exec(&before) if before
    assert(change.each_key.all? { |there| snippet.code.include?(there) })
    code = change.inject(snippet.code) { |text, (there, here)| text.gsub(there) { here } }
    code = elsewhere(format(within, code))
    GIVEN.merge(given).each { |name, its_code| define(elsewhere(its_code)) if wanted?(code, name) }
    block = -> { TOPLEVEL_BINDING.eval(code, snippet.path, snippet.line) }
    raises ? assert_raises(raises, &block) : block.call
    instance_exec(&after) if after
  end

  def wanted?(code, name)
    return false if name.match?(/[A-Z]/) && Object.const_defined?(name) && name != "Rails" # it may have no application

    code.match?(/(?<![.:])\b#{name}\b/) && !code.match?(/(class #{name}\b|#{name} = )/)
  end

  # Kafka and the registry of the guides are these.
  def elsewhere(code)
    code = code.gsub(/"(localhost|other):9092"/) { @cluster.bootstrap_servers.inspect }
    return code unless code.match?(/"https:/)

    @registry ||= RegistryDouble.new.tap { |made| made.add("orders-value", SCHEMA) }
    code.gsub(%r{"https://\w+:8081"}) { @registry.url.inspect }
  end
end

# What stands for more in the guides.
Object.define_method("…") { |*| nil }
SEEN = GuidesTest::SEEN
