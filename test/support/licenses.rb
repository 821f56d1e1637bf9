# frozen_string_literal: true

require "json"
require "open3"

# What is linked into the extension, and under which licenses: bin/licenses writes THIRD_PARTY_LICENSES.txt with it, and
# a test compares.
class Licenses
  class Failure < StandardError; end

  ROOT = File.expand_path("../..", __dir__)
  FILE = "THIRD_PARTY_LICENSES.txt"
  OURS = %w[pelton pelton-allocator pelton-core].freeze
  # C libraries that crates bring with them: {crate => [[name, license, file]]}.
  LIBRARIES = {
    "rdkafka-sys" => [["librdkafka, with what it bundles (cJSON, crc32c, fnv1a, hdrhistogram, lz4, murmur2, nanopb, " \
                       "OpenTelemetry's protocol, pycrc, queue, regexp, snappy, tinycthread)",
                       "BSD-2-Clause and others", "librdkafka/LICENSES.txt"]],
    "openssl-src" => [["OpenSSL", "Apache-2.0", "openssl/LICENSE.txt"]],
    "tikv-jemalloc-sys" => [["jemalloc", "BSD-2-Clause", "jemalloc/COPYING"]],
    "zstd-sys" => [["Zstandard", "BSD-3-Clause", "zstd/LICENSE"]],
    "libz-sys" => [["zlib", "Zlib", "src/zlib/LICENSE"]]
  }.freeze
  # The license text of a crate that offers several: the one that we chose.
  TEXTS = %w[LICENSE-MIT LICENSE LICENSE.md LICENSE.txt LICENSE-Apache LICENSE-APACHE COPYING].freeze
  TARGET = "x86_64-unknown-linux-gnu"

  Part = Struct.new(:name, :version, :license, :text) do
    def title = [name, version].compact.join(" ")
  end

  # Crates whose code is in the extension: not those that only build it, or run in the compiler.
  #: () -> Array[Hash[String, untyped]]
  def crates
    @crates ||= linked.map { |id| packages.fetch(id) }.reject { |crate| OURS.include?(crate["name"]) }
                      .sort_by { |crate| crate["name"] }
  end

  # Those crates and the C libraries that they bring.
  #: () -> Array[Part]
  def parts
    @parts ||= crates.map { |crate| Part.new(*crate.values_at("name", "version", "license"), text(crate)) } + libraries
  end

  # The C libraries alone.
  #: () -> Array[Part]
  def libraries
    LIBRARIES.flat_map do |crate, list|
      package = packages.each_value.find { |candidate| candidate["name"] == crate }
      raise Failure, "no crate #{crate}" unless package

      list.map do |name, license, file|
        text = File.read(File.join(folder(package), file), encoding: "UTF-8")
        Part.new(name, version(package), license, text)
      end
    end
  end

  #: () -> String
  def to_s
    <<~TEXT
      Third-party software in Pelton's native extension
      =================================================

      Pelton itself is under the MIT license: see LICENSE. What follows is linked statically into lib/pelton/*/pelton.so, for
      Linux. Where there is a choice of licenses, the text below is the one we take. Written by bin/licenses.

      #{parts.map { |part| "- #{part.title}: #{part.license}" }.join("\n")}
      - Rust's standard library: MIT OR Apache-2.0 (the Rust Project Developers)
      - in precompiled gems, what Zig links: its compiler-rt: MIT (Zig contributors), and LLVM's libunwind: Apache-2.0 WITH
        LLVM-exception (LLVM contributors)

      #{sections}
    TEXT
  end

  private

  # A text that several parts share appears once.
  def sections
    parts.group_by { |part| part.text.gsub(/\s+/, " ") }.map do |_, group|
      title = group.map(&:title).join(", ")
      "#{"-" * 100}\n#{title}\n#{"-" * 100}\n\n#{group.first.text.strip}\n"
    end.join("\n")
  end

  # A library's, from its crate's ("4.10.0+2.12.1"), or from its header.
  def version(package)
    package["version"][/\+(?:zstd\.)?([\d.]+)/, 1] ||
      File.read(File.join(folder(package), "src/zlib/zlib.h"))[/^#define ZLIB_VERSION "(.+)"/, 1]
  end

  def text(crate)
    file = TEXTS.find { |name| File.exist?(File.join(folder(crate), name)) }
    return File.read(File.join(folder(crate), file), encoding: "UTF-8") if file

    # One that names its license in Cargo.toml alone: MIT's words are the same everywhere.
    raise Failure, "no text of #{crate["name"]}'s license" unless crate["license"] == "MIT"

    ours = File.read(File.join(ROOT, "LICENSE"))
    ours.sub(/^Copyright.*$/, "Copyright (c) #{crate["authors"].join(", ")}")
  end

  def folder(crate) = File.dirname(crate["manifest_path"])
  def packages = @packages ||= metadata["packages"].to_h { |package| [package["id"], package] }

  # Ids of the extension's package and its dependencies.
  def linked
    nodes = metadata["resolve"]["nodes"].to_h { |node| [node["id"], node] }
    found = []
    waiting = [packages.each_value.find { |package| package["name"] == "pelton" }["id"]]
    while (id = waiting.shift)
      next if found.include?(id) || of_the_compiler?(packages.fetch(id))

      found << id
      normal = nodes.fetch(id)["deps"].select { |dep| dep["dep_kinds"].any? { |kind| kind["kind"].nil? } }
      waiting.concat(normal.map { |dep| dep["pkg"] })
    end
    found
  end

  def of_the_compiler?(package) = package["targets"].any? { |target| target["kind"].include?("proc-macro") }

  def metadata
    @metadata ||= begin
      command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", TARGET]
      text, errors, status = Open3.capture3(*command, chdir: ROOT)
      raise Failure, "#{command.join(" ")}: #{errors}" unless status.success?

      JSON.parse(text)
    end
  end
end
