# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/config"
require "pelton/poller"

class ConfigTest < Minitest::Test
  def config = @config ||= Pelton::Config.new

  def test_defaults_are_the_tables
    assert_equal 5, config.concurrency
    assert_equal 100, config.max_messages
    assert_equal "pelton", config.client_id
    assert_nil config.group_id
    assert_same Pelton::DefaultLogger, config.logger
    Pelton::Settings::APP.reject { |setting| %i[logger flush_timeout].include?(setting.name) }.each do |setting|
      value = config.public_send(setting.name)
      setting.default.nil? ? assert_nil(value) : assert_equal(setting.default, value)
    end
  end

  def test_values_are_checked_when_they_are_set
    { concurrency: 0, max_messages: "100", client_id: "a b", kafka: "x", shutdown_timeout: -1, group_id: "",
      queue_timeout: Float::INFINITY, prefetch_batches: 1.5, decoding_memory: 2**70 }.each do |name, value|
      error = assert_raises(Pelton::ConfigError, name) { config.public_send(:"#{name}=", value) }
      assert_equal name.to_s, error.key
      assert_includes error.message, "expected"
    end
    config.concurrency = 7
    assert_equal 7, config.concurrency
  end

  def test_settings_without_a_default_may_be_unset
    config.group_id = "a"
    config.group_id = nil
    assert_nil config.group_id
    assert_raises(Pelton::ConfigError) { config.concurrency = nil }
  end

  def test_unknown_setting
    error = assert_raises(Pelton::ConfigError) { config.concurency = 3 }
    assert_includes error.message, "did you mean concurrency?"
    assert_raises(Pelton::ConfigError) { config.set("nonsense", 1) }
    assert_includes assert_raises(Pelton::ConfigError) { config.concurency }.message, "did you mean concurrency?"
  end

  def test_reader_of_an_unknown_setting_raises_an_error_that_names_it
    error = assert_raises(Pelton::ConfigError) { config.pause.timeout = 1_000 }
    assert_match(/\Apause: unknown setting, known are abort_ack_wait, .*worker_priority\z/, error.message)
  end

  def test_config_converts_to_nothing_and_has_no_other_methods
    assert_equal [config], [config].flatten
    assert_raises(NoMethodError) { config.to_path }
    assert_raises(NoMethodError) { config.pause? }
    assert_raises(NoMethodError) { config.pause(1) }
  end

  def test_frozen_config_says_so
    config.kafka = { "sasl.password" => "hunter2" }
    config.freeze
    assert_predicate config, :frozen?
    error = assert_raises(Pelton::ConfigError) { config.concurrency = 3 }
    assert_includes error.message, "frozen"
    frozen = assert_raises(Pelton::ConfigError) { config.kafka["acks"] = "1" }
    refute_includes frozen.message, "hunter2"
    frozen = assert_raises(FrozenError) { config.kafka.delete("acks") }
    refute_includes frozen.message, "hunter2"
  end

  def test_flush_timeout_is_a_part_of_shutdown_timeout
    config.shutdown_timeout = 5
    config.flush_timeout = 6
    error = assert_raises(Pelton::ConfigError) { config.freeze }
    assert_equal "flush_timeout = 6: cannot be longer than shutdown_timeout (5 s), of which it is a part", error.message
    config.flush_timeout = 5
    assert_equal 5, config.freeze.flush_timeout
  end

  def test_an_unset_flush_timeout_follows_a_shorter_shutdown_timeout
    assert_equal 10, config.flush_timeout
    [[5, 5], [10, 10], [11, 10], [0, 0]].each do |shutdown, flush|
      config.shutdown_timeout = shutdown
      assert_equal flush, config.dup.freeze.flush_timeout
    end
    config.flush_timeout = 3
    config.flush_timeout = nil
    config.shutdown_timeout = 2
    assert_equal 2, config.freeze.flush_timeout
  end

  def test_the_parents_port_needs_metrics
    config.liveness.parent_port = 9300
    error = assert_raises(Pelton::ConfigError) { config.freeze }
    assert_equal "liveness.parent_port = 9300: needs liveness.metrics, which it shows", error.message
    config.liveness.metrics = ->(_env) { [200, {}, []] }
    assert_predicate config.freeze, :frozen?
  end

  def test_kafka_options_are_strings_with_names_untouched
    config.kafka = { acks: "all", "linger.ms" => 5, "enable.idempotence" => true, "compression.codec" => :zstd }
    assert_equal({ "acks" => "all", "linger.ms" => "5", "enable.idempotence" => "true", "compression.codec" => "zstd" },
                 config.kafka)
    error = assert_raises(Pelton::ConfigError) { config.kafka = { "sasl.password" => ["hunter2"] } }
    refute_includes error.message, "hunter2"
    assert_raises(Pelton::ConfigError) { config.kafka = { "acks" => nil } }
  end

  def test_value_that_is_not_a_hash_of_options_is_not_shown
    [[["sasl.password", "hunter2"]], "sasl.password=hunter2", [{ "a" => "hunter2" }]].each do |wrong|
      error = assert_raises(Pelton::ConfigError) { config.kafka = wrong }
      refute_includes "#{error.message} #{error.value.inspect}", "hunter2"
      assert_includes error.message, wrong.class.name
    end
    error = assert_raises(Pelton::ConfigError) { config.kafka = { "sasl" => [["password", "hunter2"]] } }
    refute_includes "#{error.message} #{error.value.inspect}", "hunter2"
    convertible = Struct.new(:to_hash).new({ "sasl.password" => "hunter2" })
    error = assert_raises(Pelton::ConfigError) { config.freeze.kafka = convertible }
    refute_includes "#{error.message} #{error.value.inspect}", "hunter2"
  end

  def test_port_that_does_not_exist_is_not_another_one
    ["a:9092, b:99999", "[::1]:65536", "SASL_SSL://a:123456 ,b"].each do |servers|
      error = assert_raises(Pelton::ConfigError, servers) { config.kafka = { "bootstrap.servers" => servers } }
      assert_match(/is no port: expected HOST:PORT, with a port up to 65535/, error.message)
    end
    ["a", "a:65535,b:1", "[2001:db8::99999]:9092", "SASL_SSL://a:9092"].each do |servers|
      config.kafka = { "bootstrap.servers" => servers }
      assert_equal servers, config.kafka["bootstrap.servers"]
    end
  end

  def test_options_that_would_break_marking_are_refused
    [false, "false", "False", :f, 0].each do |off|
      error = assert_raises(Pelton::ConfigError) { config.kafka = { "enable.auto.commit" => off } }
      assert_includes error.message, "enable.auto.commit = #{off.to_s.inspect}: "
      assert_includes error.message, "mark_as_consumed!"
      assert_raises(Pelton::ConfigError) { config.kafka_with({}, { "enable.auto.commit": off }) }
    end
    error = assert_raises(Pelton::ConfigError) { config.kafka = { "enable.auto.offset.store": true } }
    assert_includes error.message, "enable.auto.offset.store = \"true\": "
    config.kafka = { "enable.auto.commit" => true, "enable.auto.offset.store" => false }
  end

  def test_options_that_would_leave_deliveries_without_an_answer_are_refused
    [true, "TRUE", :t, 1].each do |on|
      error = assert_raises(Pelton::ConfigError) { config.kafka = { "delivery.report.only.error": on } }
      assert_includes error.message, "delivery.report.only.error = #{on.to_s.inspect}: "
      assert_raises(Pelton::ConfigError) { config.kafka_with({}, { "delivery.report.only.error" => on }) }
    end
    config.kafka = { "delivery.report.only.error" => false }
  end

  def test_secrets_are_never_shown
    config.kafka = { "sasl.password" => "hunter2", "ssl.key.pem" => "hunter2", "bootstrap.servers" => "a:9092" }
    all = config.kafka_with({ "x" => 1 })
    shown = [config.inspect, config.kafka.inspect, config.kafka.to_s, capture_io { pp config.kafka }.first, all.inspect,
             all.merge("a" => "b").inspect, capture_io { pp config }.first, "#{config}"] # rubocop:disable Style/RedundantInterpolation
    shown.each { |text| refute_includes text, "hunter2" }
    assert_includes config.inspect, "a:9092"
    assert_equal "hunter2", all["sasl.password"]
  end

  def test_kafka_with_puts_the_users_over_ours_and_the_clients_over_all
    config.client_id = "shop"
    config.kafka = { "a" => "user", "b" => "user" }
    result = config.kafka_with({ "a" => 1, "b" => 1, "c" => 1 }, { "b" => "client" })
    assert_equal({ "client.id" => "shop", "a" => "user", "b" => "client", "c" => "1" }, result)
    assert_predicate result, :frozen?
  end

  def test_a_group_of_settings
    assert_equal [nil, 100], [config.polling.poller, config.polling.max_time]
    config.polling.max_time = 20
    config.polling.poller = poller = Pelton::Poller.new("own")
    assert_equal({ poller: poller, max_time: 20 }, config.polling.to_h)
    assert_includes config.inspect, "max_time"
    [[:max_time, 0], [:max_time, 1.5], [:max_time, nil], [:poller, "x"], [:poller, Pelton::Poller]].each do |row|
      name, value = row
      error = assert_raises(Pelton::ConfigError, name) { config.polling.set(name, value) }
      assert_equal "polling.#{name}", error.key
      assert_includes error.message, "expected"
    end
    config.polling.poller = nil
    assert_nil config.polling.poller
  end

  def test_a_group_of_settings_knows_its_names
    error = assert_raises(Pelton::ConfigError) { config.polling.max_tim = 3 }
    assert_includes error.message, "did you mean polling.max_time?"
    error = assert_raises(Pelton::ConfigError) { config.polling.max_tim }
    assert_includes error.message, "did you mean polling.max_time?"
    error = assert_raises(Pelton::ConfigError) { config.polling = { max_time: 3 } }
    assert_includes error.message, "config.polling.max_time"
  end

  def test_a_group_of_settings_is_frozen_with_the_others
    config.freeze
    assert_predicate config.polling, :frozen?
    error = assert_raises(Pelton::ConfigError) { config.polling.max_time = 3 }
    assert_equal ["polling.max_time", true], [error.key, error.message.include?("frozen")]
  end

  def test_markdown_names_every_setting
    text = Pelton::Settings.to_markdown
    tables = [Pelton::Settings::APP, Pelton::Settings::POLLING, Pelton::Settings::LIVENESS,
              Pelton::Settings::TOPIC]
    tables.flat_map(&:names).each { |name| assert_includes text, "`#{name}`" }
  end
end
