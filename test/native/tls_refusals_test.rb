# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/program"
require "support/tls_server"
require "tmpdir"

# Which certificates connect, and what is said about those that do not: the error names the reason, and does not blame
# ssl.ca.location for what it cannot mend.
class NativeTlsRefusalsTest < Minitest::Test
  include NativeKit

  AUTHORITY = Certificates.certificate("Pelton test authority")
  OTHER = Certificates.certificate("Another authority")
  GOOD = Certificates.certificate("localhost", issuer: AUTHORITY, hosts: TlsServer::HOSTS)
  ADVICE = "verify that ssl.ca.location is correctly configured"
  CLIENTS = "the broker says so of this client's certificate (ssl.certificate.location)"

  def setup
    super
    @folder = Dir.mktmpdir("pelton-tls")
    @trusted = { "ssl.ca.location" => write("authority.pem", AUTHORITY[:cert].to_pem) }
  end

  def teardown
    FileUtils.rm_rf(@folder)
    super
  end

  def write(name, text) = File.join(@folder, name).tap { |path| File.write(path, text) }

  def made(name = "localhost", hosts: TlsServer::HOSTS, **times)
    Certificates.certificate(name, issuer: AUTHORITY, hosts: hosts, **times)
  end

  # A folder as OpenSSL reads them: a file is named after the hash of its subject.
  def hashed_folder
    folder = File.join(@folder, "hashed").tap { |path| Dir.mkdir(path) }
    File.write(File.join(folder, format("%08x.0", AUTHORITY[:cert].subject.hash)), AUTHORITY[:cert].to_pem)
    folder
  end

  # Yields a server, and a client that connects to it. Returns the errors until the server had a handshake, or this
  # one is among the errors.
  def connect(options, until_error: nil, host: "localhost", **of_server)
    server = TlsServer.new(AUTHORITY, **of_server)
    poller = Pelton::Native::Poller.new("tls")
    client = Pelton::Native::Producer.new("client", { "bootstrap.servers" => "#{host}:#{server.port}",
                                                      "security.protocol" => "ssl", "broker.address.family" => "v4",
                                                      "reconnect.backoff.max.ms" => "200", **options },
                                          { poller: poller })
    events = []
    eventually(20, -> { events.join("\n") }) do
      events.concat(poller.next_events(0.1, 100))
      until_error ? errors(events).any? { |text| text.match?(until_error) } : server.handshakes.positive?
    end
    [errors(events), events, server.handshakes]
  ensure
    client&.close(0)
    server&.close
  end

  def errors(events) = events.select { |event| event[0] == :error }.map { |event| event[4] }

  # Returns the errors of a client that is refused.
  def refused(reason, options = @trusted, **of_server)
    errors, events, handshakes = connect(options, until_error: reason, **of_server)
    assert_equal 0, handshakes
    yield events if block_given?
    errors.grep(reason).first
  end

  def test_authorities_of_a_file_of_a_folder_and_of_a_text_connect
    [@trusted, { "ssl.ca.location" => hashed_folder }, { "ssl.ca.pem" => AUTHORITY[:cert].to_pem }].each do |options|
      assert_operator connect(options).last, :>, 0
    end
  end

  # A file whose name is not the hash is not found, nor is an authority that signed nothing here.
  def test_authorities_that_are_not_found_leave_librdkafkas_advice
    plain = File.join(@folder, "plain").tap { |path| Dir.mkdir(path) }
    File.write(File.join(plain, "authority.pem"), AUTHORITY[:cert].to_pem)
    [plain, write("other.pem", OTHER[:cert].to_pem)].each do |location|
      error = refused(/SSL handshake failed: .*trusted/, { "ssl.ca.location" => location })
      assert_match(/verify failed: the (broker's )?certificate .*signed by no trusted authority: broker cert/, error)
      assert_includes error, ADVICE
    end
  end

  def test_certificates_that_are_refused_name_the_reason
    { made(to: -60) => /the broker's certificate has expired/,
      made(from: 3600) => /the broker's certificate is not valid yet/,
      made(hosts: "DNS:elsewhere") => /the broker's certificate is for another host name/,
      Certificates.certificate("localhost", hosts: TlsServer::HOSTS) => /is self-signed, and not trusted/ }
      .each do |own, reason|
      error = refused(/SSL handshake failed.*#{reason}/, own: own) do |events|
        logged = events.select { |event| event[0] == :log && event[3] == "SSLCERTVRFY" }
        assert_match(reason, logged.first.inspect)
      end
      refute_includes error, ADVICE unless reason.source.include?("self-signed")
    end
    assert refused(/is for another IP address/, own: made(hosts: "DNS:localhost"), host: "127.0.0.1")
  end

  def test_an_authority_that_has_expired_is_named_as_such
    old = Certificates.certificate("Old authority", to: -60)
    server = Certificates.certificate("localhost", issuer: old, hosts: TlsServer::HOSTS)
    location = write("old.pem", old[:cert].to_pem)
    assert refused(/the certificate of an authority has expired/, { "ssl.ca.location" => location }, own: server)
  end

  def test_revoked_certificates_and_lists_that_say_nothing_are_named
    list = ->(name, *revoked) { write("#{name}.pem", Certificates.revocations(AUTHORITY, *revoked).to_pem) }
    revoked = { **@trusted, "ssl.crl.location" => list.("revoked", GOOD) }
    refute_includes refused(/SSL handshake failed.*the broker's certificate was revoked/, revoked, own: GOOD), ADVICE
    assert_operator connect({ **@trusted, "ssl.crl.location" => list.("none") }, own: GOOD).last, :>, 0
    others = write("others.pem", Certificates.revocations(OTHER).to_pem)
    assert refused(/ssl.crl.location has no list of the authority/, { **@trusted, "ssl.crl.location" => others })
  end

  def test_unverified_certificates_connect_and_nothing_is_said_about_them
    options = { **@trusted, "enable.ssl.certificate.verification" => "false" }
    _, events, handshakes = connect(options, own: made(to: -60))
    assert_operator handshakes, :>, 0
    refute_match(/SSLCERTVRFY|expired/, events.inspect)
    names = { **@trusted, "ssl.endpoint.identification.algorithm" => "none" }
    assert_operator connect(names, own: made(hosts: "DNS:elsewhere")).last, :>, 0
  end

  def test_client_with_a_bad_certificate_learns_that_its_own_is_refused
    of = lambda do |pair|
      { **@trusted, "ssl.certificate.pem" => pair[:cert].to_pem, "ssl.key.pem" => pair[:key].to_pem }
    end
    client = ->(**times) { Certificates.certificate("client", issuer: AUTHORITY, **times) }
    assert_operator connect(of.(client.()), clients: true).last, :>, 0
    { @trusted => /alert certificate required/, of.(client.(to: -60)) => /alert certificate expired/,
      of.(Certificates.certificate("client", issuer: OTHER)) => /alert unknown ca/ }.each do |options, alert|
      assert_includes refused(alert, options, clients: true), CLIENTS
    end
  end

  def test_options_that_name_no_certificate_are_refused_at_once
    { { "ssl.ca.location" => "/nowhere" } => /ssl.ca.location/, { "ssl.ca.pem" => "none" } => /ssl.ca.pem/,
      { **@trusted, "ssl.certificate.location" => "/nowhere" } => /ssl.certificate.location/,
      { **@trusted, "ssl.crl.location" => "/nowhere" } => /ssl.crl.location/ }.each do |options, reason|
      error = assert_raises(Pelton::ConfigError) { connect(options) }
      assert_match(reason, error.message)
    end
  end

  # {variable => value}: whether a process with it connects.
  def test_environment_names_a_file_or_a_folder_of_authorities
    code = <<~RUBY
      require "pelton"
      Pelton.config.kafka = { "bootstrap.servers" => "localhost:\#{ARGV[0]}", "security.protocol" => "ssl",
                              "broker.address.family" => "v4" }
      errors = Thread::Queue.new
      Pelton.subscribe("error.occurred") { |event| errors << event[:error].message }
      Pelton.producer.produce_async(topic: "t", payload: "x")
      puts errors.pop
      exit!
    RUBY
    none = { "SSL_CERT_FILE" => nil, "SSL_CERT_DIR" => nil }
    hashed = hashed_folder
    { { "SSL_CERT_FILE" => @trusted.each_value.first } => true, { "SSL_CERT_DIR" => hashed } => true,
      { "SSL_CERT_FILE" => "/nowhere" } => false, { "SSL_CERT_DIR" => @folder } => false,
      { "SSL_CERT_FILE" => "/nowhere", "SSL_CERT_DIR" => hashed } => true }.each do |env, connects|
      server = TlsServer.new(AUTHORITY)
      result = Program.run(RbConfig.ruby, "-w", "-I#{File.expand_path("../../lib", __dir__)}", "-e", code,
                           server.port.to_s, env: { **none, **env }, limit: 60 * Guard::PATIENCE)
      assert_equal connects, server.handshakes.positive?, "#{env}: #{result.output}"
      assert_match(/signed by no trusted authority/, result.output) unless connects
    ensure
      server&.close
    end
  end
end
