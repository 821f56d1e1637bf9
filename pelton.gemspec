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
  spec.metadata["rubygems_mfa_required"] = "true"

  # What a working copy builds (lib/pelton/3.1/pelton.so) stays out: `gem install` compiles for its own Ruby.
  shipped = %w[
    lib/**/*.{rb,rake,tt} exe/* sig/* Cargo.toml Cargo.lock rustfmt.toml
    ext/core/Cargo.toml ext/core/{src,benches,examples,tests}/**/*.rs
    ext/pelton/{Cargo.toml,build.rs,extconf.rb} ext/pelton/src/**/*.rs
    README.md CHANGELOG.md LICENSE SECURITY.md THIRD_PARTY_LICENSES.txt
  ]
  spec.files = Dir.glob(shipped, base: __dir__).select { |path| File.file?(File.join(__dir__, path)) }
  spec.bindir = "exe"
  spec.executables = Dir.glob("*", base: File.join(__dir__, "exe"))
  spec.extensions = ["ext/pelton/extconf.rb"]

  spec.add_development_dependency "activerecord", ">= 6.1"
  spec.add_development_dependency "async", ">= 1.30"
  spec.add_development_dependency "minitest", "~> 5.15"
  spec.add_development_dependency "msgpack", "~> 1.4"
  spec.add_development_dependency "rake", "~> 13.0"
  spec.add_development_dependency "rubocop", "~> 1.39"
  spec.add_development_dependency "sqlite3", ">= 1.4"
end
