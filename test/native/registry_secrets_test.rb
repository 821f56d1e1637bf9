# frozen_string_literal: true

require_relative "../test_helper"
require "erb"
require "json"
require "openssl"
require "tmpdir"
require "uri"
require "pelton"
require "pelton/registry"
require "support/certificates"
require "support/registry_double"

# A registry that is not to be trusted: what it sends back shows no login, and certificates are looked at.
class NativeRegistrySecretsTest < Minitest::Test
  include RegistryDoubles

  INT = '"int"'
  QUICK = { retries: 0, timeout: 10 * Guard::PATIENCE, open_timeout: 10 * Guard::PATIENCE }.freeze
  # {what the registry does => what the error says}
  FAULTS = { echo: /authorization: (Basic|Bearer) \[hidden\]/i, echo_schema: /./, echo_status: /./ }.freeze

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

  # In each form in which a registry may repeat it, without the words that introduce a login.
  def test_password_that_a_registry_says_in_its_own_words_is_hidden
    double = new_double
    secret = "tab\t\"ö &1/+\u{1f511}"
    url = ERB::Util.url_encode(secret)
    json = JSON.generate(secret)[1..-2]
    base64 = ["me:#{secret}"].pack("m0")
    said = [secret, url, URI.encode_www_form_component(secret), url.downcase, ERB::Util.url_encode(url), json,
            json.gsub("/", "\\/"), JSON.generate(secret, ascii_only: true)[1..-2], secret.inspect[1..-2],
            ERB::Util.html_escape(secret), secret.gsub(/[&"ö]/) { "&##{_1.ord};" },
            secret.gsub(/[&ö]/) { "&#x#{_1.ord.to_s(16)};" },
            base64, base64.tr("+/", "-_").delete("="), ERB::Util.url_encode(base64), [secret].pack("m0")]
    said.each do |form|
      double.fail([:says, "no such user: #{form}, sorry"])
      error = assert_raises(Pelton::RegistryError) { client(double.url, user: "me", password: secret).schema(7) }
      assert_includes error.message, "no such user: [hidden], sorry", form
    end
  end

  # They are bytes of any encoding.
  def test_password_of_invalid_bytes_was_an_error_of_json_and_is_hidden
    double = new_double
    ["hush\xFF", "hush\xE9".b, "hush\xE9".dup.force_encoding("ISO-8859-1")].each do |secret|
      [{ user: "me", password: secret }, { token: secret }].each do |login|
        [[:says, "no: hush%FF hush%e9 hush%C3%A9 #{secret.dup.force_encoding("UTF-8").scrub}"]].each do |fault|
          double.fail(fault)
          error = assert_raises(Pelton::RegistryError) { client(double.url, **login).schema(7) }
          refute_includes error.message, secret.b.inspect[1..-2]
        end
      end
    end
  end

  # Matching them took exponential time, before runs of backslashes were one.
  def test_text_that_nearly_has_the_password_again_and_again_takes_linear_time
    double = new_double
    { "\\" * 40 => "#{"\\" * 39}x", "%25" * 20 => "#{"%25" * 19}%2x", "\\%&é" => "\\\\&é" }.each do |secret, nearly|
      double.fail([:says, nearly * 10_000])
      error = assert_raises(Pelton::RegistryError) { client(double.url, token: secret).schema(7) }
      assert_includes error.message, "HTTP 400"
    end
  end

  # It would be a header of its own.
  def test_token_of_several_lines_is_refused_and_not_shown
    ["hush\nX: y", "hush\r", 5].each do |token|
      error = assert_raises(Pelton::ConfigError) { client("http://localhost", token: token) }
      assert_match(/token = .+: expected a String of one line/, error.message)
      refute_includes error.message, "hush"
    end
    assert client("http://localhost", token: "one line")
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
      own = { key: key, cert: context.cert }
      paths = %w[ca none revoked].to_h { |name| [name, File.join(folder, "#{name}.pem")] }
      File.write(paths["ca"], context.cert.to_pem)
      File.write(paths["none"], Certificates.revocations(own).to_pem)
      File.write(paths["revoked"], Certificates.revocations(own, own).to_pem)
      options = ->(name) { { tls: { ca_file: paths["ca"], crl_file: paths[name] } } }
      assert_equal id, client(double.url, **options.("none")).schema(id).id
      error = assert_raises(Pelton::RegistryError) { client(double.url, **options.("revoked")).schema(id) }
      assert_match(/revoked/, error.message)
    end
  end

  private

  def certificate(key) = Certificates.certificate("127.0.0.1", key: key, hosts: "IP:127.0.0.1")[:cert]
end
