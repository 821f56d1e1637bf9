# frozen_string_literal: true

require "test_helper"
require "open3"
require "tmpdir"

# The Makefile that `gem install` runs, with a cargo that builds an empty library.
class ExtconfTest < Minitest::Test
  EXTCONF = File.expand_path("../../ext/pelton/extconf.rb", __dir__)
  CARGO = <<~'SHELL'
    #!/bin/sh
    while [ $# -gt 0 ]; do [ "$1" = --target-dir ] && target=$2; shift; done
    [ -z "$target" ] || { mkdir -p "$target/release/deps" && echo library > "$target/release/libpelton.so"; }
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
      assert_path_exists "#{target}/release/deps"
    end
  end

  private

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
