# frozen_string_literal: true

require "test_helper"
require "open3"
require "tmpdir"
require_relative "../../ext/pelton/flags"

# The Makefile that `gem install` runs, with a cargo that builds an empty library.
class ExtconfTest < Minitest::Test
  EXTCONF = File.expand_path("../../ext/pelton/extconf.rb", __dir__)
  CARGO = <<~'SHELL'
    #!/bin/sh
    [ "$1" = --version ] && echo "cargo ${CARGO_VERSION:-9.9.9} (0123abc 2030-01-01)" && exit
    while [ $# -gt 0 ]; do [ "$1" = --target-dir ] && target=$2; shift; done
    [ -z "$target" ] || { mkdir -p "$target/gem/deps" && echo library > "$target/gem/libpelton.so"; }
  SHELL

  def test_install_keeps_the_library_and_deletes_the_rest
    in_gem do |folder|
      assert_equal ["library\n"], installed(folder)
      refute_path_exists "#{folder}/target", "it would be in every container image"
    end
  end

  def test_install_keeps_a_target_folder_of_the_users
    in_gem do |folder|
      target = "#{folder}/shared"
      assert_equal ["library\n"], installed(folder, "CARGO_TARGET_DIR" => target)
      assert_path_exists "#{target}/gem/deps"
    end
  end

  def test_a_machine_without_anything_gets_a_line_for_each_thing_it_lacks
    Dir.mktmpdir do |folder|
      File.write("#{folder}/bare.rb", <<~RUBY)
        %w[etc fileutils open3 shellwords].each { |name| require name } # RubyGems looks for files, too
        Dir.define_singleton_method(:glob) { |*| [] }
        RbConfig::CONFIG["rubyhdrdir"] = "/nowhere"
      RUBY
      output, status = refused("-r./bare.rb", env: { "PATH" => "/nowhere", "CC" => nil }, folder: folder)

      refute_predicate status, :success?
      assert_equal ["Pelton compiles", "  - cargo was", "  - libclang was", "  - Ruby's headers", "  - No C",
                    "  - make was", "  - perl was"], output.lines.map { |line| line[/\A(  - )?\S+ \S+/] }
      assert_includes output, "/nowhere/ruby.h"
      refute_path_exists "#{folder}/Makefile"
    end
  end

  def test_a_cargo_that_is_too_old_is_refused_with_both_versions
    in_gem do |folder|
      env = { "PATH" => "#{folder}/bin:#{ENV.fetch("PATH")}", "CARGO_VERSION" => "1.70.0" }
      output, status = refused(env: env, folder: folder)

      refute_predicate status, :success?
      assert_match(/\A.*\n  - cargo is 1\.70\.0: install Rust 1\.\d+ or newer.*\n\z/, output)
    end
  end

  def test_the_choice_of_librdkafka_reaches_cargo
    in_gem do |folder|
      File.write("#{folder}/bin/pkg-config", "#!/bin/sh\necho 99.0.0\n")
      File.chmod(0o755, "#{folder}/bin/pkg-config")
      assert_equal ["library\n"], installed(folder, "PELTON_LIBRDKAFKA" => "system")
      assert_match(/^\t.* cargo build .* --no-default-features --features system$/, File.read("#{folder}/Makefile"))
    end
  end

  def test_a_librdkafka_that_is_not_there_is_refused_before_anything_is_compiled
    in_gem do |folder|
      env = { "PATH" => "#{folder}/bin:#{ENV.fetch("PATH")}", "PELTON_LIBRDKAFKA" => "bundeld" }
      output, status = refused(env: env, folder: folder)

      refute_predicate status, :success?
      assert_match(/\A.*\n  - PELTON_LIBRDKAFKA="bundeld": there is no such folder\. .*\n\z/, output)
      refute_path_exists "#{folder}/Makefile"
    end
  end

  # The extension had 10.7 MB.
  def test_the_makefile_has_the_flags_of_a_small_extension
    in_gem do |folder|
      installed(folder)
      exports = File.read("#{folder}/Makefile").scan(/^export (\S+) \+?= ?(.*)$/).to_h

      assert_equal({ "CFLAGS" => Flags::C, "CXXFLAGS" => Flags::C, "PELTON_OPENSSL_FLAGS" => Flags::OPENSSL,
                     "PELTON_LINK_FLAGS" => Flags.link }, exports)
    end
  end

  def test_zstd_is_compiled_without_the_formats_that_kafka_never_had
    assert_includes Flags::C.split, "-UZSTD_LEGACY_SUPPORT"
  end

  def test_addresses_are_packed_only_where_the_loader_of_glibc_reads_such_a_list
    packed = { "glibc 2.28" => false, "glibc 2.35" => false, "glibc 2.36" => true, "glibc 2.41" => true,
               "glibc 3.0" => true, "" => false, nil => false }
    packed.each { |libc, expected| assert_equal expected, Flags.link(libc).include?("pack-relative-relocs"), libc }
  end

  private

  def refused(*options, env:, folder:) = Open3.capture2e(env, RbConfig.ruby, *options, EXTCONF, chdir: folder)

  def in_gem
    Dir.mktmpdir do |folder|
      Dir.mkdir("#{folder}/bin")
      File.write("#{folder}/bin/cargo", CARGO)
      File.chmod(0o755, "#{folder}/bin/cargo")
      yield folder
    end
  end

  # The contents of the libraries that were installed.
  def installed(folder, env = {})
    env = { "PATH" => "#{folder}/bin:#{ENV.fetch("PATH")}", "CARGO_TARGET_DIR" => nil, **env }
    [[RbConfig.ruby, EXTCONF], ["make", "install", "DESTDIR=#{folder}/to"]].each do |command|
      output, status = Open3.capture2e(env, *command, chdir: folder)
      assert_predicate status, :success?, output
    end
    # A Ruby may live below a hidden folder, such as ~/.cache.
    Dir.glob("#{folder}/to/**/pelton.{so,bundle}", File::FNM_DOTMATCH).map { |path| File.read(path) }
  end
end
