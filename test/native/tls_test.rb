# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/program"
require "support/tls_server"
require "tmpdir"

# TLS as it is used without a word about it: processes that end with open connections, brokers with a certificate that
# the system trusts. Without Kafka: handshakes are all there is to see.
class NativeTlsTest < Minitest::Test
  include NativeKit

  ROOT = File.expand_path("../..", __dir__)
  RUBY = [RbConfig.ruby, "-w", "-I#{ROOT}/lib"].freeze
  WITHOUT_PLACES = { "SSL_CERT_FILE" => nil, "SSL_CERT_DIR" => nil }.freeze

  # Reconnects all the time, so that each exit comes in the middle of handshakes.
  EXITS = <<~'RUBY'
    require "pelton"
    require "pelton/runtime/native"
    native = Pelton::Native
    options = { "bootstrap.servers" => "127.0.0.1:#{ARGV[0]}", "security.protocol" => "ssl", "log_level" => "0",
                "enable.ssl.certificate.verification" => "false", "reconnect.backoff.ms" => "1",
                "reconnect.backoff.max.ms" => "1" }
    statuses = Array.new(10) do
      children = Array.new(10) do
        fork do
          $clients = Array.new(6) { |number| native::Producer.new("p#{number}", options, {}) }
          $clients << native::Admin.new("a", options, {})
          $clients << native::Subscription.new("s", { **options, "group.id" => "g" }, {})
          IO.select(nil, nil, nil, 0.3 + (rand * 0.2))
        end
      end
      children.map { |pid| Process.wait2(pid)[1] }
    end
    puts statuses.flatten.map { |status| status.exitstatus || "signal #{status.termsig}" }.tally.inspect
  RUBY

  # Prints what became of the first connection to the port.
  CONNECTS = <<~'RUBY'
    require "pelton"
    require "pelton/runtime/native"
    native = Pelton::Native
    options = { "bootstrap.servers" => "localhost:#{ARGV[0]}", "security.protocol" => "ssl", "log_level" => "6",
                "broker.address.family" => "v4" }
    poller = native::Poller.new("tls")
    client = native::Producer.new("client", options, { poller: poller })
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
    seen = []
    until seen.any? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      seen = poller.next_events(1, 100).map(&:inspect).grep(/verify failed|Disconnected/)
    end
    puts seen.first(1)
    client.close(5)
  RUBY

  def setup = @server = TlsServer.new
  def teardown = @server.close

  # 9 of 100 ended with a signal while OpenSSL's exit handler freed what the clients' threads used.
  def test_a_process_that_exits_in_the_middle_of_tls_handshakes_crashed
    result = Program.run(*RUBY, "-e", EXITS, @server.port.to_s, limit: 120 * Guard::PATIENCE)
    assert_equal "{0=>100}", result.output.strip.delete(" "), "exit codes of 100 processes"
    assert_operator @server.handshakes, :>, 0, "there was TLS"
  end

  # The OpenSSL in the extension knows no system's certificates.
  def test_a_broker_with_a_certificate_that_the_system_trusts_was_refused
    result = connect(WITHOUT_PLACES, trusted: true)
    assert_operator @server.handshakes, :>, 0, result.output
  end

  def test_broker_with_an_untrusted_certificate_is_refused
    result = connect(WITHOUT_PLACES, trusted: false)
    assert_equal 0, @server.handshakes
    assert_match(/certificate verify failed/, result.output)
  end

  # Without namespaces: what OpenSSL's own variables name counts, as before.
  def test_the_environment_names_the_certificates
    Dir.mktmpdir do |folder|
      file = File.join(folder, "authority.pem")
      File.write(file, @server.authority)
      result = Program.run(*RUBY, "-e", CONNECTS, @server.port.to_s, env: { "SSL_CERT_FILE" => file }, limit: 60)
      assert_operator @server.handshakes, :>, 0, result.output
    end
  end

  private

  # A program for which /etc/ssl has one certificate, or none.
  def connect(env, trusted:)
    Dir.mktmpdir do |folder|
      file = File.join(folder, "authority.pem")
      File.write(file, @server.authority)
      install = trusted ? "mkdir /etc/ssl/certs && cp #{file} /etc/ssl/certs/ca-certificates.crt" : "true"
      hide = "mount -t tmpfs none /etc/ssl && { [ ! -d /etc/pki ] || mount -t tmpfs none /etc/pki; }"
      Program.run(*namespace, "sh", "-c", "#{hide} && #{install} && exec \"$@\"", "sh",
                  *RUBY, "-e", CONNECTS, @server.port.to_s, env: env, limit: 60)
    end
  end

  # As root, or where the kernel lets anybody: a mount namespace of its own.
  def namespace
    found = [%w[unshare -m], %w[unshare -r -m]].find do |command|
      system(*command, "mount", "-t", "tmpfs", "none", "/etc/ssl", out: File::NULL, err: File::NULL)
    end
    found || skip("mounts need root or user namespaces here")
  end
end
