# frozen_string_literal: true

require_relative "lib/pelton/version"

Gem::Specification.new do |spec|
  spec.name = "pelton"
  spec.version = Pelton::VERSION
  spec.summary = "Kafka for Ruby at native speed"
  spec.description = "Produces and consumes with a Rust core over librdkafka that works outside the GVL, and a " \
                     "Ruby framework on top: routing, retries, dead letters, parallel work, an embedded cluster."
  spec.authors = ["The Pelton developers"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  # The maintainers set the repository's address here, once it is public. It is a placeholder until then. A test
  # compares the address in SECURITY.md.
  repository = "https://example.org/pelton"
  spec.homepage = repository
  spec.metadata = {
    "source_code_uri" => repository,
    "changelog_uri" => "#{repository}/blob/main/CHANGELOG.md",
    "bug_tracker_uri" => "#{repository}/issues",
    "documentation_uri" => "#{repository}/blob/main/docs/guides",
    "rubygems_mfa_required" => "true"
  }

  # What a working copy builds (lib/pelton/3.1/pelton.so) stays out: `gem install` compiles for its own Ruby.
  shipped = %w[
    lib/**/*.{rb,rake,tt,erb,css,js,svg} exe/* sig/* Cargo.toml Cargo.lock rustfmt.toml
    .cargo/config.toml ext/openssl/perl
    ext/allocator/{Cargo.toml,build.rs,wrapped.rs} ext/allocator/{src,examples}/*.rs
    ext/core/{Cargo.toml,build.rs,wrapped.rs} ext/core/{src,benches,examples,tests}/**/*.rs
    ext/pelton/{Cargo.toml,build.rs,extconf.rb,flags.rb,librdkafka.rb} ext/pelton/src/**/*.rs
    docs/*.md docs/{guides,internals,reference}/**/*.md docs/decisions/*.md
    README.md CHANGELOG.md LICENSE SECURITY.md THIRD_PARTY_LICENSES.txt
  ]
  spec.files = Dir.glob(shipped, base: __dir__).select { |path| File.file?(File.join(__dir__, path)) }
  spec.bindir = "exe"
  spec.executables = Dir.glob("*", base: File.join(__dir__, "exe"))
  spec.extensions = ["ext/pelton/extconf.rb"]

  spec.add_development_dependency "activerecord", ">= 6.1", "< 9"
  spec.add_development_dependency "async", ">= 1.30", "< 3"
  spec.add_development_dependency "minitest", "~> 5.15"
  spec.add_development_dependency "msgpack", "~> 1.4"
  spec.add_development_dependency "rake", "~> 13.0"
  spec.add_development_dependency "rubocop", "~> 1.39"
  spec.add_development_dependency "sqlite3", ">= 1.4", "< 3"
end
