# frozen_string_literal: true

# Writes the Makefile that `gem install` runs: cargo builds the extension for the Ruby that runs this file, and `make
# install` puts it under lib/pelton/<major.minor>/, so that one folder can serve several Rubies. Then it deletes cargo's
# other files, 900 MB, which would stay in the gem's folder and in container images. (bin/setup builds a working copy.)

require "rbconfig"

unless system("cargo", "--version", out: File::NULL, err: File::NULL)
  abort "Pelton compiles a Rust extension: cargo (Rust 1.88 or newer) was not found on the path."
end

abi = RUBY_VERSION[/\A\d+\.\d+/]
suffix = RbConfig::CONFIG["host_os"].match?(/darwin/) ? "dylib" : "so"

File.write("Makefile", <<~MAKE)
  ruby = #{RbConfig.ruby}
  source = #{File.expand_path("../..", __dir__)}
  target = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
  sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
  to = $(DESTDIR)$(sitearchdir)/pelton/#{abi}

  all:
  \tRUBY="$(ruby)" cargo build --release --locked -p pelton --manifest-path "$(source)/Cargo.toml" --target-dir "$(target)"

  install: all
  \tmkdir -p "$(to)"
  \tcp "$(target)/release/libpelton.#{suffix}" "$(to)/pelton.#{RbConfig::CONFIG["DLEXT"]}"
  \trm -rf "$(CURDIR)/target"

  clean:
  \trm -rf "$(CURDIR)/target"

  .PHONY: all install clean
MAKE
