# frozen_string_literal: true

require "fileutils"
require "open3"
require_relative "../program"
require_relative "coverage_map"

module Mutants
  # A copy of the project in which changes are made, one at a time, and tests run.
  class Tree
    attr_reader :root

    # from: the project; root: where the copy is made.
    #: (String, String) -> void
    def initialize(from, root)
      @from = from
      @root = root
    end

    #: () -> self
    def copy
      files, = Open3.capture2("git", "ls-files", "-coz", "--exclude-standard", chdir: @from)
      FileUtils.rm_rf(Dir.children(@root).map { |name| File.join(@root, name) } - [target]) if Dir.exist?(@root)
      (files.split("\0") + Dir.glob("lib/pelton/*/pelton.so", base: @from)).each do |file|
        FileUtils.mkdir_p(File.join(@root, File.dirname(file)))
        FileUtils.copy_file(File.join(@from, file), File.join(@root, file), true) if File.file?(File.join(@from, file))
      end
      self
    end

    # The block runs while the file is changed.
    #: (Site) { () -> Object } -> Object
    def with(site)
      path = File.join(@root, site.path)
      @text = File.read(path)
      File.write(path, site.apply(@text))
      yield
    ensure
      File.write(path, @text)
    end

    # Runs the block with the original file, in the middle of a change.
    #: (Site) { () -> Object } -> Object
    def without(site)
      path = File.join(@root, site.path)
      changed = File.read(path)
      File.write(path, @text)
      yield
    ensure
      File.write(path, changed)
    end

    #: (String, Numeric, ?Hash[String, String]) -> Program::Result
    def test(file, limit, env = {})
      Program.run(*Mutants.ruby(@root), File.join(@root, file), env: env, limit: limit, folder: @root)
    end

    # Compiles the core's tests; the output has cargo's messages as lines of JSON.
    #: () -> Program::Result
    def compile_tests
      cargo("test", "-q", "--release", "--locked", "-p", "pelton-core", "--lib", "--tests", "--no-run",
            "--message-format=json", limit: 1800)
    end

    # One of the programs that it made.
    #: (String, Numeric, Hash[String, String]) -> Program::Result
    def run_core_test(program, limit, env)
      Program.run(program, env: env, limit: limit, folder: File.join(@root, "ext/core"))
    end

    # Builds the extension, which the Ruby tests of this tree then load.
    #: () -> bool
    def build
      return false unless cargo("build", "--release", "--locked", "-q", "-p", "pelton", limit: 900).ok?

      FileUtils.cp(File.join(target, "release/libpelton.so"), library)
      true
    end

    # Takes over the project's compiled dependencies.
    #: () -> void
    def prepare_cargo
      return if Dir.exist?(File.join(target, "release"))

      FileUtils.mkdir_p(File.join(target, "release"))
      parts = %w[build deps .fingerprint].map { |name| File.join(@from, "target/release", name) }
      Program.run("cp", "-a", "--reflink=auto", *parts, File.join(target, "release/"))
    end

    private

    # Compiles the core again. That is fast, because its dependencies do not change.
    def cargo(*words, limit:)
      env = { "RUBY" => nil, "CARGO_TARGET_DIR" => target, "CARGO_PROFILE_RELEASE_INCREMENTAL" => "true" }
      Program.run("cargo", *words, "--config", "profile.release.package.pelton-core.opt-level=1",
                  env: env, limit: limit, folder: @root)
    end

    def target = File.join(@root, "target")
    def library = File.join(@root, "lib/pelton", RUBY_VERSION[/\A\d+\.\d+/], "pelton.so")
  end
end
