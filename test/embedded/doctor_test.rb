# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "open3"
require "rbconfig"
require "socket"
require "tempfile"

# `pelton doctor` as it is shipped: a process of its own, real librdkafka, the embedded cluster.
class EmbeddedDoctorTest < Minitest::Test
  include EmbeddedApp

  ROOT = File.expand_path("../..", __dir__)

  # [exit code, stdout, stderr]
  def doctor(*arguments, servers: @cluster.bootstrap_servers)
    app = Tempfile.new(["app", ".rb"])
    app.write(<<~RUBY)
      class Orders < Pelton::Consumer
        def consume = nil
      end

      Pelton.configure do |config|
        config.group_id = "billing"
        config.kafka = { "bootstrap.servers" => #{servers.dump}, "sasl.password" => "geheim",
                         "security.protocol" => "plaintext" }
      end
      Pelton.routes { topic("orders", to: Orders) { where("type").matches(/a(?=b)|c/) } }
    RUBY
    app.close
    pelton("doctor", "-r", app.path, *arguments)
  ensure
    app&.unlink
  end

  def pelton(*arguments)
    out, err, status = Open3.capture3(RbConfig.ruby, "-w", "-I#{ROOT}/lib", "#{ROOT}/exe/pelton", *arguments)
    [status.exitstatus, out, err]
  end

  def test_versions
    versions = "pelton #{Pelton::VERSION} (librdkafka #{Pelton::Native.librdkafka_version}, ruby #{RUBY_VERSION})\n"
    %w[version --version -v].each { |word| assert_equal [0, versions, ""], pelton(word) }
  end

  def test_an_app_that_is_well
    @cluster.create_topic("orders", 3)
    code, out, err = doctor
    assert_equal [0, ""], [code, err]
    assert_match(/orders\n +partitions +3$/, out)
    assert_match(/reached$/, out)
    assert_match(%r{where +native threads; /a\(\?=b\)\|c/ by Ruby}, out)
    refute_includes out, "geheim"
  end

  def test_json_and_strict
    code, out, err = doctor("--json", "--strict")
    assert_equal [1, ""], [code, err]
    report = JSON.parse(out)
    assert_equal Pelton::Native.librdkafka_version, report["versions"]["librdkafka"]
    assert_equal 0, report["group billing"]["orders"]["partitions"]
    assert_includes report["findings"], { "level" => "warning", "about" => "topic orders", "text" => "does not exist" }
  end

  def test_all_options_without_secrets
    code, out, err = doctor("--options", "--json", "--offline")
    assert_equal [0, ""], [code, err]
    report = JSON.parse(out)
    producer, group = report.values_at("options of producer", "options of group billing")
    assert_equal %w[murmur2_random 5 [hidden]], producer.values_at("partitioner", "linger.ms", "sasl.password")
    assert_equal %w[billing 16384 false], # the user's, ours, one that is not the user's to say
                 group.values_at("group.id", "queued.max.messages.kbytes", "enable.auto.offset.store")
    assert_equal @cluster.bootstrap_servers, group["bootstrap.servers"]
    refute producer.key?("session.timeout.ms")
    refute_includes out, "geheim"
    refute_includes doctor("--offline").first(2).last, "linger.ms", "only where they are asked for"
  end

  def test_doctor_reports_a_server_that_is_not_kafka
    TCPServer.open("127.0.0.1", 0) do |deaf|
      servers = "127.0.0.1:#{deaf.addr[1]}"
      code, out, = doctor("--timeout", "1", servers: servers)
      assert_equal 1, code
      assert_match(/error +brokers #{servers}: the connection works, but Kafka does not answer/, out)
      assert_equal 0, doctor("--offline", servers: servers).first
    end
  end

  def test_doctor_with_invalid_options_exits_with_an_error
    code, out, err = doctor("-c", "0")
    assert_equal [1, ""], [code, out]
    assert_match(/pelton: cannot run doctor: concurrency = 0/, err)
    assert_match(/timeout = -1/, doctor("--timeout", "-1").last)
  end
end
