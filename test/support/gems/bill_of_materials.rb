# frozen_string_literal: true

require "digest"
require "json"
require "time"
require_relative "../licenses"

module Gems
  # What is linked into the extension, in CycloneDX 1.5, which scanners for known vulnerabilities read.
  class BillOfMaterials
    # A license expression of SPDX; any other text is a license's name.
    EXPRESSION = %r{\A[\w.+-]+(?:(?: OR | AND | WITH |/)[\w.+-]+)*\z}

    def initialize(licenses = Licenses.new)
      @licenses = licenses
    end

    #: () -> String
    def to_json(*)
      parts = components
      serial = Digest::SHA256.hexdigest(JSON.generate(parts))
      bill = { bomFormat: "CycloneDX", specVersion: "1.5", serialNumber: uuid(serial), version: 1,
               metadata: { timestamp: Time.at(Gems.epoch).utc.iso8601, component: pelton }, components: parts }
      "#{JSON.pretty_generate(bill)}\n"
    end

    private

    def pelton
      version = Gem::Specification.load(File.join(ROOT, "pelton.gemspec")).version.to_s
      component("pelton", version, "MIT", "gem")
    end

    def components
      rust = `rustc --version`[/\d+\.\d+\.\d+/]
      crates = @licenses.crates.map do |crate|
        sum = checksums["#{crate["name"]} #{crate["version"]}"]
        hashes = sum && [{ alg: "SHA-256", content: sum }]
        component(crate["name"], crate["version"], crate["license"], "cargo", hashes: hashes)
      end
      libraries = @licenses.libraries.map do |part|
        name, contents = part.name.split(", with what it bundles ")
        component(name, part.version, part.license, "generic", description: contents && "with #{contents}")
      end
      [*crates, *libraries, component("rust-std", rust, "MIT OR Apache-2.0", "generic"), zig]
    end

    # It links a part of itself.
    def zig
      version = NativeBuild::TOOLS.first[/ziglang==(.+)/, 1]
      component("zig", version, "MIT AND Apache-2.0 WITH LLVM-exception", "generic",
                description: "its compiler-rt, and LLVM's libunwind")
    end

    def component(name, version, license, kind, **more)
      raise Failure, "no version of #{name}" unless version

      url = "pkg:#{kind}/#{name.downcase}@#{version.gsub("+", "%2B")}"
      { type: "library", "bom-ref": url, name: name, version: version, purl: url,
        licenses: [expression(license)], **more.compact }
    end

    def expression(license)
      license.match?(EXPRESSION) ? { expression: license.gsub("/", " OR ") } : { license: { name: license } }
    end

    # {"regex 1.13.1" => SHA-256 of the crate}, from Cargo.lock.
    def checksums
      @checksums ||= File.read(File.join(ROOT, "Cargo.lock"))
                         .scan(/^name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"/)
                         .to_h { |name, version, sum| ["#{name} #{version}", sum] }
    end

    def uuid(hex) = "urn:uuid:#{hex[0, 8]}-#{hex[8, 4]}-5#{hex[13, 3]}-a#{hex[17, 3]}-#{hex[20, 12]}"
  end
end
