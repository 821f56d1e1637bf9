# frozen_string_literal: true

require "test_helper"
require "open3"
require "tmpdir"

# ext/openssl/perl, which stands in perl's place while OpenSSL is compiled.
class OpensslTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PERL = File.join(ROOT, "ext/openssl/perl")

  def test_cargo_calls_it
    config = File.read(File.join(ROOT, ".cargo/config.toml"))
    assert_equal ["ext/openssl/perl"], config.scan(/^OPENSSL_SRC_PERL = \{ value = "(.+)", relative = true \}$/).flatten
    assert_path_exists PERL
    assert File.executable?(PERL)
  end

  def test_openssl_is_configured_as_asked_and_without_what_a_kafka_client_never_uses
    arguments = called("./Configure", "--prefix=/a folder", "no-shared", "linux-x86_64", "-O2")

    assert_equal ["./Configure", "--prefix=/a folder", "no-shared", "linux-x86_64", "-O2"], arguments.first(5)
    assert_empty %w[no-quic no-dtls no-cmp no-cms] - arguments
  end

  # PKCS#12 files of Java's keytool and of old OpenSSL, passwords with SCRAM, and OpenSSL's own messages.
  def test_openssl_keeps_what_settings_of_librdkafka_need
    kept = %w[no-engine no-legacy no-rc2 no-rc4 no-des no-scrypt no-deprecated no-err no-ml-kem no-dh no-tls1 no-tls1_1]
    assert_empty kept & called("./Configure")
  end

  def test_another_program_of_perl_gets_its_own_arguments
    assert_equal ["util/mkdef.pl", "a b"], called("util/mkdef.pl", "a b")
  end

  private

  # The arguments that perl gets.
  def called(*arguments)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/perl", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
      File.chmod(0o755, "#{folder}/perl")
      output, status = Open3.capture2e({ "PATH" => "#{folder}:#{ENV.fetch("PATH")}" }, PERL, *arguments)
      assert_predicate status, :success?, output
      output.lines(chomp: true)
    end
  end
end
