# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/registry_double"

# The table of docs/guides/command-line.md that maps the calls of Kafka's scripts and kcat to ours: each of our calls
# runs on a real Kafka, in a folder with an app, prints what it is for, and ends with the right code.

GUIDE = File.join(Scenario::ROOT, "docs/guides/command-line.md")
# ["pelton topics list", …]
CALLS = File.readlines(GUIDE).grep(/\A\| `(?:kafka-|kcat |… )/).flat_map do |row|
  row[/.* \| (.*) \|$/, 1].scan(/`(pelton [^`]+)`/).flatten
end.uniq.freeze

APP = <<~RUBY
  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") } }
  Pelton.topics { topic ENV.fetch("INVOICES"), partitions: 12 }
RUBY

# {call => what it prints}
PRINTS = {
  "topics list" => /"topic": "orders"/,
  "topics list --internal" => /"topic": "__consumer_offsets"/,
  "topics list --under-replicated" => /\A\[\s*\]/,
  "topics show orders" => /"partition": 0/,
  "topics show orders --all" => /retention\.ms/,
  "console -e 'puts Pelton.admin.config(broker: 1).values'" => /log\.retention/,
  "console -e 'p Pelton.admin.offsets({ [\"orders\", 0] => :end })'" => /=>\s?10\b/,
  "console -e 'p Pelton.admin.offsets({ [\"orders\", 0] => Time.at(1763884800) })'" => /=>\s?0\b/,
  "groups list" => /"billing"/,
  # Other scenarios have groups there, too.
  "groups list --state stable" => /\A\[(?!.*"group": "billing")(?!.*"state": "(?!stable"))/m,
  "groups show billing" => /"committed": 3/,
  "groups lag" => /"lag": 7/,
  "groups reset billing --to beginning --all-topics" => /"after": 0/,
  "groups reset billing --to 2026-11-23T08:00:00 --topic orders:0" => /"applied": false/,
  "groups reset billing --back 1h --all-topics" => /"after": 0/,
  "groups reset billing --shift -10 --all-topics" => /"after": 0/,
  "consume orders --from beginning --count 5" => /^(?:\{"topic".*\n){5}(?!\{)/,
  "consume orders --from beginning --until end" => /"offset":9\b/,
  "consume orders --from -10 --until end --json" => /"offset":0\b.*"offset":9\b/m,
  "consume orders --from 2025-11-23T08:00:00Z" => /"offset":9\b/,
  "consume orders --format avro --registry http://registry:8081" => /"payload":7\b/,
  "info" => /"controller": \d/
}.freeze

# {call => what it changed}: called with the admin client and the names of the topics and the group.
CHANGES = {
  /create_topic|topics apply/ => ->(admin, _, _, invoices) { admin.topics(invoices)[invoices].partitions.size == 12 },
  /create_partitions/ => ->(admin, orders, *) { admin.topics(orders)[orders].partitions.size == 24 },
  /topics delete/ => ->(admin, orders, *) { !admin.topics.key?(orders) },
  /alter_config/ => ->(admin, orders, *) { admin.config(topic: orders)["retention.ms"].value == "1000" },
  /delete_records/ => ->(admin, orders, *) { admin.offsets({ [orders, 0] => :beginning }).values == [5] },
  /groups reset.*--apply/ => ->(admin, _, billing, *) { admin.group_offsets(billing).values == [10] },
  /groups delete billing --yes/ => ->(admin, _, billing, *) { !admin.groups.key?(billing) },
  /groups delete billing --topic/ => ->(admin, _, billing, *) { admin.group_offsets(billing).compact.empty? },
  /pelton produce/ => ->(admin, orders, *) { admin.offsets({ [orders, 0] => :end }).values == [12] }
}.freeze

# Calls that wait for new messages, until Ctrl-C.
FOLLOWS = /\Apelton consume (?!.*--(?:until|count))/
REGISTRY = "http://registry:8081"
PELTON = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton"].map { |word| "'#{word}'" }.join(" ").freeze

# One call of the table, with topics and a group of its own.
class Call
  NAMES = %w[orders billing invoices].freeze

  def initialize(scenario, app, registry, folder, text)
    @scenario = scenario
    @registry = registry
    @folder = folder
    @text = text
    @names = NAMES.map { |name| scenario.unique(name) }
    @app = app
  end

  # A topic with ten messages, of which the group consumed three.
  def prepare
    orders, billing = @names
    @scenario.topic(name: orders)
    send_messages(10)
    @app.admin.alter_group_offsets(billing, { [orders, 0] => 3 })
  end

  # Runs it to its end. Returns what it printed, with the names of the table, and the exit code.
  def run
    child = start
    stop_reading(child) if follows?
    code = @scenario.exit_code(child, 60)
    output = NAMES.zip(@names).inject(child.output) { |text, (name, unique)| text.gsub(unique, name) }
    @scenario.forget(child)
    [output, code]
  end

  def follows? = @text.match?(FOLLOWS)

  # A topic that was just created is not known to the broker at once.
  def changed?(change)
    change.call(@app.admin, *@names)
  rescue Pelton::KafkaError => e
    raise unless e.name == :UNKNOWN_TOPIC_OR_PART
  end

  private

  # With JSON where the command has it.
  def start
    json = " --json" if @text.match?(/\Apelton (?:topics|groups|info)/)
    text = NAMES.zip(@names).inject(@text.sub(REGISTRY, @registry.url)) { |words, pair| words.gsub(*pair) }
    @scenario.shell("cd #{@folder}; exec #{PELTON} #{text.delete_prefix("pelton ")}#{json}", "INVOICES" => @names.last)
  end

  # Presses Ctrl-C when it has printed what the table expects: messages from before, or one that comes now.
  def stop_reading(child)
    expected = PRINTS.fetch(@text.delete_prefix("pelton "), /"offset":\d/)
    @scenario.eventually(30, -> { "#{@text} prints a message: #{child.output}" }) do
      send_messages(1) unless @text.include?("--from 2025")
      child.output.match?(expected)
    end
    child.kill(:INT)
  end

  def send_messages(count)
    messages = Array.new(count) { |number| { topic: @names.first, partition: 0, payload: payload(number) } }
    @app.producer.produce_many_sync(messages)
  end

  # With a registry, an Avro int of its schema 1.
  def payload(number) = @text.include?(REGISTRY) ? "\0#{[1].pack("N")}#{[7 << 1].pack("C")}" : %({"n":#{number}})
end

Scenario.run do
  def self.shell(command, environment)
    @children << Scenario::Child.new({ "PELTON_BOOTSTRAP" => bootstrap, **environment }, ["bash", "-c", command])
    @children.last
  end

  folder = Dir.mktmpdir("pelton-table")
  at_exit { FileUtils.rm_rf(folder) }
  File.write("#{folder}/app.rb", APP)
  File.write("#{folder}/lines.txt", "1:{}\n2:{}\n")

  shared = app
  registry = RegistryDouble.new
  registry.add("orders-value", '"int"')
  check(CALLS.size > 25, "the table has #{CALLS.size} calls")
  CALLS.each do |text|
    call = Call.new(self, shared, registry, folder, text)
    call.prepare
    output, code = call.run
    equal(call.follows? ? 130 : 0, code, "#{text}\n#{output}")
    printed = PRINTS[text.delete_prefix("pelton ")]
    change = CHANGES.find { |pattern, _| text.match?(pattern) }&.last
    check(printed || change || call.follows?, "#{text}: nothing is checked")
    check(output.match?(printed), "#{text} prints\n#{output}") if printed
    eventually(20, "#{text} changes the cluster\n#{output}") { call.changed?(change) } if change
  end
  registry.close
  equal([], PRINTS.keys.map { |call| "pelton #{call}" } - CALLS, "calls that the table no longer has")
end
