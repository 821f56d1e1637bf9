# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "logger"
require "pelton/testing"
require "stringio"
begin
  require "rails"
rescue LoadError
  nil # this Ruby has no gem railties: each test says so
end
require "pelton"

if defined?(Rails::Railtie)
  require "pelton/railtie"
  # What an app would have. Its class is found by name.
  class CarriedCurrent < ActiveSupport::CurrentAttributes
    attribute :request_id, :tenant, :secret
  end
  NOT_LOADED = Pelton.autoload?(:CurrentAttributes)
  BARE_PRODUCER = Pelton::App.new.producer
  Pelton::CurrentAttributes.carry "CarriedCurrent", :request_id, :tenant
end

# Attributes travel with a message, from the thread that produces it to the consumer.
class CurrentAttributesTest < Minitest::Test
  include EmbeddedApp

  HEADER = "pelton-current-attributes"

  def setup
    skip "no gem railties for Ruby #{RUBY_VERSION}" unless defined?(Rails::Railtie)
    super
    @logger = Rails.logger
    Rails.logger = Logger.new(@log = StringIO.new)
    CarriedCurrent.reset
    @after = Thread::Queue.new # what the thread has after each job
  end

  def teardown
    return unless defined?(Rails::Railtie)

    Rails.logger = @logger
    super
  end

  def carried = [CarriedCurrent.request_id, CarriedCurrent.tenant, CarriedCurrent.secret]

  # [attributes in the method, …] of a consumer with `process` or `consume`.
  def consumed(app, name, count, method = :process, &body)
    seen = @seen
    reader = Class.new(Pelton::Consumer) { define_method(method) { |*| instance_exec(&body) } }
    reader.define_method(:note) { seen << [CarriedCurrent.request_id, CarriedCurrent.tenant, CarriedCurrent.secret] }
    app.routes { topic name, to: reader }
    app.start
    take(count)
  end

  def app = @app ||= super(around_job: ->(_job, &call) { call.().tap { @after << carried } })

  def send_all(app, name, *attributes)
    attributes.each do |values|
      CarriedCurrent.set(values) { app.producer.produce_sync(topic: name, payload: "{}", partition: 0) }
    end
  end

  def test_an_app_that_does_not_carry_attributes_loads_nothing
    assert NOT_LOADED
    assert_empty BARE_PRODUCER.middleware
  end

  def test_process_runs_with_the_attributes_of_its_message_and_leaves_none
    name = topic
    send_all(app, name, { request_id: "a", tenant: 7 }, {}, { tenant: false, secret: "kept here" })
    found = consumed(app, name, 3) { note }

    assert_equal [["a", 7, nil], [nil, nil, nil], [nil, false, nil]], found
    assert_equal [[nil, nil, nil]], take(1, @after)
  end

  def test_a_class_with_a_process_of_its_own_restores_them_also_below_one_that_does
    base = Class.new(Pelton::Consumer) { def process(_message) = nil }
    base.define_singleton_method(:build) { |*| nil } # before the module, as Consumer.build is
    base.singleton_class.prepend(Pelton::CurrentAttributes.const_get(:Restoring))
    child = Class.new(base) { def process(_message) = nil }
    same = Class.new(base)
    2.times { [base, child, same].each(&:build) }

    restoring = [base, child, same].map { |klass| klass.instance_method(:process).owner.name }
    assert_equal ["Pelton::CurrentAttributes::Restoring::OneByOne"] * 3, restoring
    assert_equal 2, child.ancestors.count { |ancestor| ancestor.name == restoring.first }
  end

  [{ admin: true }.to_json, "[1]", "\"\xFF\""].each_with_index do |value, index|
    define_method("test_a_value_that_no_producer_writes_is_a_warning_#{index}") do
      header = "{\"CarriedCurrent\":{\"tenant\":#{value}}}"
      message = Pelton::Testing::Message.new("t", 0, 7, nil, nil, { HEADER => header }, 0)
      assert_equal [nil, nil, nil], Pelton::CurrentAttributes.restore(message) { carried }
      assert_match(/Pelton ignores the header #{HEADER} of t.0, offset 7/, @log.string)
    end
  end

  def test_consume_restores_them_message_by_message
    name = topic
    send_all(app, name, { request_id: "a" }, { request_id: "b" })
    found = consumed(app, name, 3, :consume) do
      messages.each { |message| Pelton::CurrentAttributes.restore(message) { note } }
      note
    end

    assert_equal [["a", nil, nil], ["b", nil, nil], [nil, nil, nil]], found.sort_by { |row| row.first || "z" }
  end

  def test_all_ways_to_produce_write_the_header_once
    name = topic
    CarriedCurrent.set(request_id: "a") do
      producer = app.producer
      rows = [{ topic: name, payload: "1" }, { topic: name, payload: "2", headers: { "x" => "y" } }]
      producer.produce_many_sync(rows)
      producer.tombstone_sync(topic: name, key: "k")
      producer.with(acks: 1).produce_sync(topic: name, payload: "3", headers: { HEADER => "mine" })
    end
    app.producer_pool(size: 1).with { |other| assert_same app.middleware, other.middleware }
    assert_equal [Pelton::CurrentAttributes], app.middleware.to_a
    value = '{"CarriedCurrent":{"request_id":"a"}}'
    headers = app.each(name).map(&:raw_headers)

    assert_equal [{ HEADER => value }, { "x" => "y", HEADER => value }, { HEADER => value }, { HEADER => "mine" }],
                 headers
  end

  ["no JSON", "[1]", "7", "null", "{\"CarriedCurrent\":7}", "\xFF"].each_with_index do |header, index|
    define_method("test_a_header_that_cannot_be_read_is_a_warning_#{index}") do
      name = topic
      app.producer.produce_sync(topic: name, payload: "{}", headers: { HEADER => header })
      found = consumed(app, name, 1) { note }

      assert_equal [[nil, nil, nil]], found
      assert_match(%r{Pelton ignores the header #{HEADER} of #{name}/0, offset 0: it is not JSON}, @log.string)
      assert_empty errors
    end
  end

  def test_a_header_sets_only_what_is_carried
    name = topic
    header = '{"CarriedCurrent":{"secret":"x","tenant":"acme","other":1},"Kernel":{"exit":1}}'
    app.producer.produce_sync(topic: name, payload: "{}", headers: { HEADER => header })
    found = consumed(app, name, 1) { note }

    assert_equal [[nil, "acme", nil]], found
    assert_empty @log.string
  end

  [Object.new, :symbol, Float::NAN, "\xFF", [1]].each_with_index do |value, index|
    define_method("test_a_value_that_is_not_plain_is_refused_#{index}") do
      error = assert_raises(Pelton::InvalidMessageError) do
        CarriedCurrent.set(tenant: value) { app.producer.produce_async(topic: "t", payload: "") }
      end
      assert_match(/CarriedCurrent\.tenant: .*#{value.class}.* is not allowed, expected a String \(UTF-8\)/,
                   error.message)
    end
  end

  def test_wrong_names_are_refused
    carry = Pelton::CurrentAttributes.method(:carry)
    assert_match(/carry = CarriedCurrent: expected the name of a class/,
                 assert_raises(Pelton::ConfigError) { carry.(CarriedCurrent, :a) }.message)
    assert_match(/carry Current = \[\]: expected the names of attributes/,
                 assert_raises(Pelton::ConfigError) { carry.("Current") }.message)
    assert_raises(Pelton::ConfigError) { carry.("Current", 7) }
  end
end
