# frozen_string_literal: true

require "fileutils"
require "rubygems/package"
require "stringio"
require "tmpdir"

module Gems
  # One gem: its specification, and the files that no working copy has at their place.
  class Package
    ABI = /\A\d+\.\d+\z/
    # Older RubyGems, such as the 3.3.15 of Debian 12, prefers a gem for musl on systems with glibc, too.
    KNOWS_MUSL = ">= 3.3.22"

    #: () -> Package
    def self.source = new(specification, {})

    # A gem with an extension for each ABI: {"3.1" => path}. bill: the text of its bill of materials. target: Rust's
    # name of the platform; nil: this one.
    #: (Hash[String, String], String, ?String?) -> Package
    def self.precompiled(extensions, bill, target = nil)
      abis = extensions.keys.sort_by { |abi| Gem::Version.new(abi) }
      spec = specification
      spec.platform = target ? platform(*target.split("-", 2)) : platform
      spec.required_rubygems_version = KNOWS_MUSL if spec.platform.version == "musl"
      spec.extensions = []
      spec.files = spec.files.grep_v(%r{\Aext/|\A\.cargo/|\ACargo\.|\Arustfmt})
      # RubyGems offers the source gem to any other Ruby. The extension tells one that is between the two.
      spec.required_ruby_version = [">= #{abis.first}", "< #{Gem::Version.new("#{abis.last}.0").bump}.dev"]
      placed = extensions.transform_keys { |abi| "lib/pelton/#{abi}/pelton.#{RbConfig::CONFIG["DLEXT"]}" }
      new(spec, placed, { "pelton.cdx.json" => bill })
    end

    def self.specification = Gem::Specification.load(File.join(ROOT, "pelton.gemspec")).dup

    # x86_64-linux for glibc, aarch64-linux-musl, arm64-darwin. The name x86_64-linux-gnu says more, but RubyGems before
    # 3.3.22, and so Debian's of Ruby 3.1, cannot install a gem of that name.
    def self.platform(cpu = RbConfig::CONFIG["host_cpu"], os = RbConfig::CONFIG["host_os"])
      return Gem::Platform.new([cpu.sub("aarch64", "arm64"), "darwin", nil]) if os.include?("darwin")
      raise Failure, "no precompiled gem for #{os}: only for Linux and macOS" unless os.include?("linux")

      Gem::Platform.new([cpu, "linux", os.include?("musl") ? "musl" : nil])
    end

    # placed: {path in the gem => path of the file}; texts: {path in the gem => content}
    def initialize(spec, placed, texts = {})
      @spec = spec
      @placed = placed
      @texts = texts
      @spec.files = (@spec.files + placed.keys + texts.keys).sort
    end

    # Writes the gem into a folder, and returns its path.
    #: (String) -> String
    def write(folder)
      Gems.epoch
      path = File.join(folder, @spec.file_name)
      Dir.mktmpdir("pelton-gem") do |stage|
        @spec.files.each { |file| place(stage, file) }
        Dir.chdir(stage) { quietly { Gem::Package.build(@spec, false, true, path) } }
      end
      path
    end

    private

    # Modes do not depend on the umask of whoever checked the files out.
    def place(stage, file)
      to = File.join(stage, file)
      FileUtils.mkdir_p(File.dirname(to))
      if @texts.key?(file) then File.write(to, @texts.fetch(file))
      else FileUtils.cp(@placed.fetch(file) { File.join(ROOT, file) }, to)
      end
      File.chmod(file.match?(%r{\Aexe/|/perl\z|\.(so|bundle)\z}) ? 0o755 : 0o644, to)
    end

    # RubyGems' own report of a built gem is of no use here; what it warns of is.
    def quietly(&block)
      talk = Gem::StreamUI.new($stdin, StringIO.new, $stderr, false)
      Gem::DefaultUserInteraction.use_ui(talk, &block)
    end
  end
end
