# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "json"
require "tmpdir"
require_relative "../../ext/pelton/librdkafka"

# Which librdkafka the build takes, with a pkg-config and a cargo that say what the test tells them to.
class LibrdkafkaTest < Minitest::Test
  OLDEST = Librdkafka::OLDEST

  def setup
    @folder = Dir.mktmpdir
    FileUtils.mkdir_p("#{@folder}/bin")
    @path = ENV.fetch("PATH")
    ENV["PATH"] = "#{@folder}/bin:#{@path}"
  end

  def teardown
    ENV["PATH"] = @path
    FileUtils.rm_rf(@folder)
  end

  def choice(librdkafka = nil, features = nil)
    Librdkafka.new({ "PELTON_LIBRDKAFKA" => librdkafka, "PELTON_FEATURES" => features }.compact)
  end

  def program(name, script)
    File.write("#{@folder}/bin/#{name}", "#!/bin/sh\n#{script}\n")
    File.chmod(0o755, "#{@folder}/bin/#{name}")
  end

  # The machine has these libraries: { "rdkafka" => "2.15.1" }.
  def machine_has(versions)
    cases = versions.map { |name, version| "#{name}) echo #{version};;" }
    program("pkg-config", "case $2 in #{cases.join} *) exit 1;; esac")
  end

  def sources(number, *without)
    folder = Dir.mktmpdir("some sources $HOME", @folder)
    Dir.mkdir("#{folder}/src")
    ["configure", "LICENSE"].each { |name| File.write("#{folder}/#{name}", "") }
    File.write("#{folder}/src/rdkafka.h", "#define RD_KAFKA_VERSION #{number}\n")
    without.each { |name| File.delete("#{folder}/#{name}") }
    folder
  end

  def test_the_bundled_one_is_the_default_and_needs_no_arguments
    assert_match(/\A\d+\.\d+\.\d+\z/, OLDEST)
    [nil, "", "bundled"].each do |value|
      choice = choice(value)
      assert_predicate choice, :bundled?
      assert_equal ["", [], []], [choice.name, choice.problems, choice.arguments(@folder)]
    end
  end

  def test_the_systems_is_linked_as_pkg_config_finds_it
    machine_has("rdkafka" => "99.0.0")
    choice = choice("system")
    assert_equal ["system", [], %w[--no-default-features --features system]],
                 [choice.name, choice.problems, choice.arguments(@folder)]
  end

  def test_the_systems_is_refused_where_it_is_missing_too_old_or_told_to_have_features
    machine_has("rdkafka" => "2.3.0")
    assert_equal ["PELTON_LIBRDKAFKA=system: this machine has librdkafka 2.3.0, and Pelton needs #{OLDEST} or newer. " \
                  "Unset PELTON_LIBRDKAFKA for the bundled one, or name a folder with newer sources."],
                 choice("system").problems
    assert_match(/\APELTON_FEATURES="oidc": .* Unset one/, choice("system", "oidc").problems.last)
    machine_has({})
    missing = /\APELTON_LIBRDKAFKA=system: pkg-config finds no rdkafka\. Install .* #{OLDEST} or newer .* unset/
    assert_match missing, choice("system").problems.first
    ENV["PATH"] = "/nowhere"
    assert_match missing, choice("system").problems.first
  end

  def test_features_are_linked_with_libraries_of_the_machine
    machine_has("libcurl" => "8.0.0", "libsasl2" => "2.1.28")
    choice = choice(nil, "oidc, gssapi,oidc")
    assert_equal ["#{OLDEST}-gssapi-oidc", [], %w[--features gssapi,oidc]],
                 [choice.name, choice.problems, choice.arguments(@folder)]
  end

  def test_unknown_features_and_missing_libraries_are_named
    machine_has("libsasl2" => "2.1.28")
    assert_equal ['PELTON_FEATURES="kerberos,oidc": there is no "kerberos", only gssapi and oidc.',
                  'PELTON_FEATURES="kerberos,oidc": pkg-config finds no libcurl ' \
                  "(Debian: apt-get install pkg-config libcurl4-openssl-dev)."], choice(nil, "kerberos,oidc").problems
  end

  def test_each_feature_is_one_that_cargo_knows
    Librdkafka::FEATURES.each_key do |feature|
      %w[core pelton].each do |crate|
        assert_match(/^#{feature} = /, File.read("#{Librdkafka::ROOT}/ext/#{crate}/Cargo.toml"))
      end
    end
  end

  def test_a_folder_that_has_no_usable_sources_is_refused_by_name
    {
      "systm" => /PELTON_LIBRDKAFKA="systm": there is no such folder. It is bundled, system, or a folder/,
      "#{@folder}/bin" => %r{/bin": this folder has no sources of librdkafka},
      sources("0x020f01ff", "LICENSE") => /this folder has no sources/,
      sources("0x010900ff") => /this is librdkafka 1\.9\.0, and Pelton needs #{OLDEST} or newer/
    }.each do |value, pattern|
      problems = choice(value).problems
      assert_equal 1, problems.size
      assert_match(/\APELTON_LIBRDKAFKA=#{Regexp.escape(value.inspect)}: /, problems.first)
      assert_match(pattern, problems.first)
    end
  end

  def test_a_folder_becomes_the_sources_of_a_copy_of_the_crate
    sources = sources("0x020f01ff")
    crate = "#{@folder}/rdkafka-sys"
    FileUtils.mkdir_p(["#{crate}/src", "#{crate}/librdkafka"])
    %w[Cargo.toml build.rs src/lib.rs].each { |name| File.write("#{crate}/#{name}", name) }
    packages = [{ name: "another" }, { name: "rdkafka-sys", manifest_path: "#{crate}/Cargo.toml" }]
    program("cargo", "[ \"$1\" = metadata ] && echo '#{{ packages: packages }.to_json}'")
    choice = choice(sources)

    assert_equal ["2.15.1", []], [choice.name, choice.problems]
    2.times do # the second time all is there
      option, value = choice.arguments(@folder)
      assert_equal "--config", option
      copy = JSON.parse(value.delete_prefix("paths=")).first
      assert_equal [@folder, %w[Cargo.toml build.rs librdkafka src]], [File.dirname(copy), Dir.children(copy).sort]
      assert_equal "src/lib.rs", File.read("#{copy}/src/lib.rs")
      assert_equal File.realpath(sources), File.realpath("#{copy}/librdkafka")
    end
  end

  def test_digest_of_sources_changes_with_them
    sources = sources("0x020f01ff")
    before = choice(sources).send(:digest, sources)
    assert_equal before, choice(sources).send(:digest, sources)
    File.write("#{sources}/src/rdgz.c", "int x;")
    refute_equal before, choice(sources).send(:digest, sources)
  end
end
