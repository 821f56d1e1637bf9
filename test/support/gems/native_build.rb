# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require_relative "../../../ext/pelton/flags"

module Gems
  # Compiles the extension for each Ruby as the gem ships it: profile `gem` of Cargo.toml, without a path of this
  # machine. On Linux with glibc, it is for glibc 2.28 and newer: Zig has the headers and stubs of that one, and links.
  class NativeBuild
    # All of it is below one path, because OpenSSL keeps the path that it was built in.
    FOLDER = "/var/tmp/pelton-gems"
    GLIBC = "2.28"
    VERSION_SCRIPT = "#{FOLDER}/tools/exported.map".freeze
    TOOLS = %w[ziglang==0.17.1 cargo-zigbuild==0.24.1].freeze
    MAXIMUM_BYTES = 10_000_000
    # Zig defines NDEBUG for optimized code, as GCC does not. librdkafka relies on its assertions.
    KEEP_ASSERTIONS = "-UNDEBUG"

    # The extensions that bin/setup built, without their symbols, by ABI.
    def self.working_copy
      found = Dir.glob("#{ROOT}/lib/pelton/*/pelton.#{RbConfig::CONFIG["DLEXT"]}")
      raise Failure, "no extension is built: run bin/setup first" if found.empty?

      found.to_h do |path|
        abi = File.basename(File.dirname(path))
        stripped = File.join(FileUtils.mkdir_p("#{ROOT}/target/gems/#{abi}").first, File.basename(path))
        run({}, "strip", "-o", "#{stripped}.#{$$}", path)
        File.rename("#{stripped}.#{$$}", stripped)
        [abi, stripped]
      end
    end

    def self.run(env, *command, chdir: ROOT)
      output, status = Open3.capture2e(env, *command, chdir: chdir)
      return output if status.success?

      raise Failure, "#{command.join(" ")} failed (exit code #{status.exitstatus}):\n#{output.lines.last(30).join}"
    end

    # The Ruby's, for example "3.1".
    def self.abi(ruby) = run({}, ruby, "-e", 'print RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")')

    # Raises a Failure if an extension is larger than we want to ship.
    def self.check_size(path)
      size = File.size(path)
      raise Failure, "#{path} has #{size} bytes: at most #{MAXIMUM_BYTES} are allowed" if size > MAXIMUM_BYTES
    end

    # Raises a Failure if an extension for musl needs another library, such as GCC's, which Alpine does not bring by
    # itself. headers: as `objdump -p` prints them.
    def self.check_libraries(headers)
      others = headers.scan(/^\s*NEEDED\s+(\S+)/).flatten.grep_v(/\Alibc\./)
      return if others.empty?

      raise Failure, "the extension needs #{others.join(", ")}, which a system with musl may lack: docs/releasing.md " \
                     "says how Zig links it"
    end

    # target: Rust's name of another platform than this one. The Rubies are then that platform's, as programs that run
    # here. root: the folder that they call "/", with their headers.
    def initialize(rubies, target: nil, root: "/")
      @rubies = rubies.uniq
      @target = target || run({}, "rustc", "-vV")[/^host: (.+)/, 1]
      @root = root
      @zig = @target.end_with?("linux-gnu") || !target.nil?
    end

    # Returns {"3.1" => path}.
    def call
      reserve
      FileUtils.rm_rf("#{FOLDER}/target") # nothing of another commit gets into the gem
      tools if @zig
      @rubies.to_h do |ruby|
        abi = self.class.abi(ruby)
        $stderr.puts "gems: compiling for Ruby #{abi} (#{ruby})"
        run(environment(ruby), "cargo", "build", "--profile", "gem", "--locked", "-p", "pelton",
            "--target", @target, "--target-dir", "#{FOLDER}/target")
        [abi, checked(abi)]
      end
    end

    private

    def run(...) = self.class.run(...)

    # Nothing that another user can write to gets into a gem.
    def reserve
      FileUtils.mkdir_p(FOLDER, mode: 0o700)
      owner = File.stat(FOLDER)
      raise Failure, "#{FOLDER} belongs to another user" unless owner.owned? && owner.mode & 0o022 == 0
    end

    def tools
      wanted = "#{FOLDER}/tools/#{TOOLS.join("+")}"
      unless File.exist?(wanted)
        FileUtils.rm_rf("#{FOLDER}/tools")
        run({}, "python3", "-m", "venv", "#{FOLDER}/tools")
        run({}, "#{FOLDER}/tools/bin/python", "-m", "pip", "-q", "install", *TOOLS)
        FileUtils.touch(wanted)
      end
      { "zig-cc" => "cc", "zig-c++" => "c++" }.each { |name, language| compiler(name, language) }
      File.write(VERSION_SCRIPT, "{ global: #{Symbols::EXPORTED.join("; ")}; local: *; };\n")
    end

    def compiler(name, language)
      path = "#{FOLDER}/tools/bin/#{name}"
      File.write(path, <<~SHELL)
        #!/bin/sh
        exec cargo-zigbuild zig #{language} -- -target $PELTON_TARGET #{KEEP_ASSERTIONS} $PELTON_FLAGS "$@"
      SHELL
      File.chmod(0o755, path)
    end

    # PELTON_FLAGS are apart from CFLAGS, which OpenSSL keeps as a text.
    def environment(ruby)
      @zig ? common(ruby).merge(zig) : common(ruby)
    end

    def common(ruby)
      moved = { cargo_home => "/cargo", ROOT => "/pelton" }
      flags = moved.map { |from, to| "--remap-path-prefix=#{from}=#{to}" }
      flags << "-Ctarget-feature=-crt-static" if @target.end_with?("musl")
      { "RUBY" => ruby, **headers(ruby), "SOURCE_DATE_EPOCH" => Gems.epoch.to_s, "RUSTFLAGS" => flags.join(" "),
        "PELTON_FLAGS" => moved.map { |from, to| "-ffile-prefix-map=#{from}=#{to}" }.join(" "),
        "CFLAGS" => Flags::C, "CXXFLAGS" => Flags::C, "PELTON_OPENSSL_FLAGS" => Flags::OPENSSL }
    end

    # rb-sys believes these variables more than the Ruby. It reads the headers with libclang.
    def headers(ruby)
      return {} if @root == "/"

      %w[rubyhdrdir rubyarchhdrdir].to_h do |name|
        ["RBCONFIG_#{name}", File.join(@root, run({}, ruby, "-e", "print RbConfig::CONFIG.fetch(#{name.inspect})"))]
      end.merge("BINDGEN_EXTRA_CLANG_ARGS" => "--sysroot=#{@root}")
    end

    # librdkafka's shared library, which is made beside the static one, exports a symbol that it does not have. Zig's
    # linker refuses that unless told otherwise.
    def zig
      target = @target.sub("-unknown", "")
      target += ".#{GLIBC}" if target.end_with?("gnu")
      { "PELTON_TARGET" => target, "CC" => "zig-cc", "CXX" => "zig-c++", "LDFLAGS" => "-Wl,--undefined-version",
        "PELTON_VERSION_SCRIPT" => VERSION_SCRIPT, "PATH" => "#{FOLDER}/tools/bin:#{ENV.fetch("PATH")}",
        "CARGO_TARGET_#{@target.upcase.tr("-", "_")}_LINKER" => "zig-cc" }
    end

    def cargo_home = File.realpath(ENV.fetch("CARGO_HOME") { File.join(Dir.home, ".cargo") })

    # Copies the extension to where the next Ruby's does not replace it.
    def checked(abi)
      suffix = @target.include?("darwin") ? "dylib" : "so"
      path = File.join(FileUtils.mkdir_p("#{FOLDER}/extensions/#{abi}").first, "pelton.#{RbConfig::CONFIG["DLEXT"]}")
      FileUtils.cp("#{FOLDER}/target/#{@target}/gem/libpelton.#{suffix}", path)
      self.class.check_size(path)
      check_linking(path) if @target.include?("linux")
      path
    end

    def check_linking(path)
      symbols = Symbols.new(run({}, "objdump", "-T", path))
      symbols.check_assertions
      return symbols.check(GLIBC) if @target.end_with?("gnu")

      symbols.check_exports
      self.class.check_libraries(run({}, "objdump", "-p", path))
    end
  end

  # The dynamic symbols of a library, as `objdump -T` prints them.
  class Symbols
    EXPORTED = %w[Init_pelton].freeze
    DEFINED = /^\h+\s+[gw]\s.*\s(?<name>\S+)$/
    UNDEFINED = /^\S+\s+(?<weak>w?)\s.*\*UND\*\s+\S+\s+(?:\(?(?<version>[A-Z]+_[\w.]+)\)?\s+)?(?<name>\S+)$/

    def initialize(table)
      @wanted = table.lines.filter_map { |line| line.match(UNDEFINED) }
      @exported = table.lines.grep_v(/\*UND\*/).filter_map { |line| line[DEFINED, :name] }
    end

    # Raises a Failure that names what other libraries could take for theirs.
    def check_exports
      others = @exported - EXPORTED
      raise Failure, "the extension exports more than #{EXPORTED.join(", ")}: #{others.join(", ")}" if others.any?
    end

    # Raises a Failure if C was compiled with NDEBUG: librdkafka would go on where it cannot.
    def check_assertions
      return if @wanted.any? { |symbol| symbol[:name] == "__assert_fail" }

      raise Failure, "librdkafka's assertions are not in the extension: something defined NDEBUG"
    end

    # Also raises a Failure that names what glibc of this version does not have. What has no version must be Ruby's.
    def check(glibc)
      check_exports
      newer = @wanted.select { |symbol| symbol[:version]&.start_with?("GLIBC_") && newer?(symbol[:version], glibc) }
      foreign = @wanted.reject do |symbol|
        symbol[:version] || !symbol[:weak].empty? || symbol[:name].match?(/\A(rb|ruby)_/)
      end
      return if newer.empty? && foreign.empty?

      names = (newer + foreign).map { |symbol| symbol.values_at(:name, :version).compact.join("@") }
      raise Failure, "glibc #{glibc} and Ruby lack what the extension needs: #{names.join(", ")}"
    end

    private

    def newer?(version, glibc) = Gem::Version.new(version.delete_prefix("GLIBC_")) > Gem::Version.new(glibc)
  end
end
