# frozen_string_literal: true

require_relative "../test_helper"
require "openssl"
require "tmpdir"
require "pelton"
require "pelton/registry"
require "support/registry_double"

# A registry that is not to be trusted: what it sends back shows no login, and certificates are looked at.
class NativeRegistrySecretsTest < Minitest::Test
  INT = '"int"'
  QUICK = { retries: 0, timeout: 10 * Guard::PATIENCE, open_timeout: 10 * Guard::PATIENCE }.freeze
  # {what the registry does => what the error says}
  FAULTS = { echo: /authorization: (Basic|Bearer) \[hidden\]/i, echo_schema: /./, echo_status: /./ }.freeze

  def setup
    super
    @doubles = []
  end

  def teardown
    @doubles.each(&:close)
    super
  end

  def new_double(**options) = RegistryDouble.new(**options).tap { |made| @doubles << made }
  def client(*urls, **options) = Pelton::Registry.new(*urls, **QUICK, **options)

  def test_a_registry_that_repeats_the_request_puts_no_login_into_the_error
    double = new_double
    hush = 'hush "1" & é'
    ways = [[double.url, { user: "me", password: hush }], [double.url, { token: "hush-token" }],
            [double.url.sub("//", "//me:hush%201@"), {}]]
    ways.each do |url, login|
      FAULTS.each do |fault, says|
        double.heal
        double.fail(fault, times: 9)
        error = assert_raises(Pelton::RegistryError, fault.to_s) { client(url, **login).schema(7) }
        told = error.full_message(highlight: false) + error.inspect
        assert_match(says, error.message)
        refute_match(/hush|\e|#{["me:#{hush}"].pack("m0")}|#{["me:hush 1"].pack("m0")}/, told)
        refute_match(/[\n\r]/, error.message)
        assert_nil error.cause
        assert_nil error.code
      end
    end
  end

  def test_a_certificate_of_another_host_is_refused
    key = OpenSSL::PKey::RSA.new(2048)
    context = OpenSSL::SSL::SSLContext.new
    context.key = key
    context.cert = certificate(key)
    double = new_double(tls: context)
    id = double.add("r", INT)
    Dir.mktmpdir do |folder|
      File.write(path = File.join(folder, "ca.pem"), context.cert.to_pem)
      elsewhere = double.url.sub("127.0.0.1", "localhost")
      error = assert_raises(Pelton::RegistryError) { client(elsewhere, tls: { ca_file: path }).schema(id) }
      assert_match(/does not answer: .*(hostname|certificate verify failed)/, error.message)
      assert_equal id, client(double.url, tls: { ca_file: path }).schema(id).id
    end
  end

  def test_a_revoked_certificate_is_refused
    key = OpenSSL::PKey::RSA.new(2048)
    context = OpenSSL::SSL::SSLContext.new
    context.key = key
    context.cert = certificate(key)
    double = new_double(tls: context)
    id = double.add("r", INT)
    Dir.mktmpdir do |folder|
      paths = %w[ca none revoked].to_h { |name| [name, File.join(folder, "#{name}.pem")] }
      File.write(paths["ca"], context.cert.to_pem)
      File.write(paths["none"], revocations(context.cert, key, []).to_pem)
      File.write(paths["revoked"], revocations(context.cert, key, [context.cert.serial]).to_pem)
      options = ->(name) { { tls: { ca_file: paths["ca"], crl_file: paths[name] } } }
      assert_equal id, client(double.url, **options.("none")).schema(id).id
      error = assert_raises(Pelton::RegistryError) { client(double.url, **options.("revoked")).schema(id) }
      assert_match(/revoked/, error.message)
    end
  end

  private

  def revocations(cert, key, serials)
    OpenSSL::X509::CRL.new.tap do |list|
      list.version = 1
      list.issuer = cert.subject
      list.last_update = Time.now - 3600
      list.next_update = Time.now + 86_400
      serials.each do |serial|
        list.add_revoked(OpenSSL::X509::Revoked.new.tap do |one|
          one.serial = serial
          one.time = Time.now - 60
        end)
      end
      list.sign(key, OpenSSL::Digest.new("SHA256"))
    end
  end

  def certificate(key)
    OpenSSL::X509::Certificate.new.tap do |cert|
      cert.version = 2
      cert.serial = 1
      cert.subject = cert.issuer = OpenSSL::X509::Name.parse("/CN=127.0.0.1")
      cert.public_key = key.public_key
      cert.not_before = Time.now - 3600
      cert.not_after = Time.now + 86_400
      extensions = OpenSSL::X509::ExtensionFactory.new
      cert.add_extension(extensions.create_extension("basicConstraints", "CA:TRUE", true))
      cert.add_extension(extensions.create_extension("subjectAltName", "IP:127.0.0.1"))
      cert.sign(key, OpenSSL::Digest.new("SHA256"))
    end
  end
end
