# frozen_string_literal: true

# Writes the Makefile that `gem install` runs: cargo builds the extension for the Ruby that runs this file, and `make
# install` puts it under lib/pelton/<major.minor>/, so that one folder can serve several Rubies. Then it deletes cargo's
# other files, 900 MB, which would stay in the gem's folder and in container images. (bin/setup builds a working copy.)
#
# First it looks for all that the build needs, because cargo says only after minutes, and obscurely, what is missing.

require "rbconfig"
require "shellwords"
require_relative "flags"
require_relative "librdkafka"

# What the build needs and this machine lacks, a sentence each.
module Requirements
  RUST = File.read(File.expand_path("../../Cargo.toml", __dir__))[/^rust-version = "([\d.]+)"/, 1]
  DEBIAN = "(Debian: apt-get install %s)"
  LIBCLANG_FOLDERS = [
    *ENV.fetch("LIBCLANG_PATH", "").split(":"), *ENV.fetch("LD_LIBRARY_PATH", "").split(":"),
    "/usr/lib*", "/usr/lib*/*-linux-*", "/usr/lib*/llvm*/lib*", "/usr/local/lib*", "/usr/local/llvm*/lib*",
    "/opt/homebrew/opt/llvm*/lib", "/usr/local/opt/llvm*/lib", "/Library/Developer/CommandLineTools/usr/lib"
  ].freeze

  class << self
    def missing(librdkafka)
      [cargo, libclang, headers, compiler, tool("make", "runs this build"),
       (tool("perl", "configures OpenSSL") unless librdkafka.system?), *librdkafka.problems].compact
    end

    private

    def cargo
      version = output("cargo", "--version")[/\d+\.\d+(\.\d+)?/]
      if version.nil?
        "cargo was not found on the PATH: install Rust #{RUST} or newer, for example from https://rustup.rs."
      elsif Gem::Version.new(version) < Gem::Version.new(RUST)
        "cargo is #{version}: install Rust #{RUST} or newer, for example with `rustup update stable`."
      end
    end

    def libclang
      folders = [*LIBCLANG_FOLDERS, output("llvm-config", "--libdir").strip]
      return if Dir.glob([*folders, *folders.map { |folder| "#{folder}/*" }]).grep(%r{/libclang[-.].*(so|dylib)}).any?

      "libclang was not found, with which Ruby's headers are read #{format(DEBIAN, "libclang-dev")}. If you have one " \
        "elsewhere, set LIBCLANG_PATH to its folder."
    end

    def headers
      folder = RbConfig::CONFIG["rubyhdrdir"].to_s
      return if File.exist?(File.join(folder, "ruby.h"))

      "Ruby's headers are missing: there is no #{File.join(folder, "ruby.h")} #{format(DEBIAN, "ruby-dev")}."
    end

    def compiler
      names = [ENV.fetch("CC", nil), "cc"].compact
      return if names.any? { |name| !output(*name.split, "--version").empty? }

      "No C compiler was found (#{names.join(", ")}) #{format(DEBIAN, "gcc libc6-dev")}."
    end

    def tool(name, purpose)
      "#{name} was not found on the PATH: it #{purpose} #{format(DEBIAN, name)}." if output(name, "--version").empty?
    end

    # What the command prints; "" if there is no such command, or it fails.
    def output(*command)
      text = IO.popen([*command, { err: File::NULL }], &:read)
      $?.success? ? text : ""
    rescue SystemCallError
      ""
    end
  end
end

librdkafka = Librdkafka.new
missing = Requirements.missing(librdkafka)
unless missing.empty?
  abort ["Pelton compiles a Rust extension, and this machine lacks what that needs:", *missing].join("\n  - ")
end

arguments = librdkafka.arguments(Dir.pwd).map { |argument| " #{argument.shellescape.gsub("$", "$$")}" }.join
abi = RUBY_VERSION[/\A\d+\.\d+/]
suffix = RbConfig::CONFIG["host_os"].match?(/darwin/) ? "dylib" : "so"

# With profile `gem` of Cargo.toml, as bin/gems builds it.
File.write("Makefile", <<~MAKE)
  ruby = #{RbConfig.ruby}
  source = #{File.expand_path("../..", __dir__)}
  target = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
  sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
  to = $(DESTDIR)$(sitearchdir)/pelton/#{abi}
  export CFLAGS += #{Flags::C}
  export CXXFLAGS += #{Flags::C}
  export PELTON_OPENSSL_FLAGS = #{Flags::OPENSSL}
  export PELTON_LINK_FLAGS = #{Flags.link}

  all:
  \tRUBY="$(ruby)" cargo build --profile gem --locked -p pelton --manifest-path "$(source)/Cargo.toml" --target-dir "$(target)"#{arguments}

  install: all
  \tmkdir -p "$(to)"
  \tcp "$(target)/gem/libpelton.#{suffix}" "$(to)/pelton.#{RbConfig::CONFIG["DLEXT"]}"
  \trm -rf "$(CURDIR)/target" "$(CURDIR)"/rdkafka-sys-*

  clean:
  \trm -rf "$(CURDIR)/target" "$(CURDIR)"/rdkafka-sys-*

  .PHONY: all install clean
MAKE
