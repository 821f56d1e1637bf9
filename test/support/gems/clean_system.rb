# frozen_string_literal: true

require "fileutils"
require "tmpdir"

module Gems
  # A Debian with Ruby and nothing else of use: no compiler, no Rust, no network. A gem is installed and used in it.
  # Needs root, and mmdebstrap to make it; it is kept in the cache folder, and nothing is ever written to it. One of
  # another architecture also needs qemu-user-static, and Linux 6.7: its programs run in a user namespace of its own,
  # where the kernel is told what starts them.
  class CleanSystem
    # They are unpacked and not set up, which takes half a minute instead of two.
    PACKAGES = "base-files,ruby,dash,coreutils"
    FILES = %w[gems/in_clean_system.rb gems/first_use.rb tls_server.rb certificates.rb].freeze
    # CPU as Rust names it => Debian's name of it, and how its programs begin: ELF, 64 bits, little endian, the machine.
    FOREIGN = {
      "aarch64" => ["arm64", %q(\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00)]
    }.freeze
    MASK = %q(\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff)
    # In namespaces of its own, so what it mounts and starts ends with it.
    ENTER = <<~SHELL
      if [ "$3" ]; then
        mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
        printf %s "$3" >/proc/sys/fs/binfmt_misc/register
      fi
      mount -t tmpfs tmpfs "$1/tmp"
      mount -t proc proc "$1/proc"
      cp -r "$2/." "$1/tmp"
      ip link set lo up
      exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 GEM_HOME=/tmp/home EMULATED="$3" \\
        ruby /tmp/in_clean_system.rb
    SHELL

    def self.possible?
      Process.uid.zero? && %w[mmdebstrap unshare ip].all? { |tool| system("command -v #{tool} >/dev/null") }
    end

    # suite: Debian's name of a release, such as "trixie"; target: Rust's name of the platform; nil: this one
    def initialize(suite, target = nil)
      @suite = suite
      @cpu = target.to_s[/\A[^-]+/]
      @architecture, @magic = FOREIGN[@cpu] unless @cpu == RbConfig::CONFIG["host_cpu"]
      cache = ENV.fetch("XDG_CACHE_HOME") { File.join(Dir.home, ".cache") }
      @root = File.join(cache, "pelton", ["debian", suite, *@architecture].join("-"))
    end

    # Prints what happened in it, and raises a Failure if that failed.
    #: (String) -> void
    def try(gem)
      make
      emulation = @architecture ? emulate : ""
      puts "#{[@suite, *@architecture].join(" ")}:"
      Dir.mktmpdir("pelton-clean") do |folder|
        FileUtils.cp(gem, folder)
        FILES.each { |file| FileUtils.cp("#{ROOT}/test/support/#{file}", folder) }
        ran = system("unshare", *("-Ur" if @architecture), "--mount", "--net", "--pid", "--fork", "--kill-child",
                     "sh", "-euc", ENTER, "sh", @root, folder, emulation)
        raise Failure, "the gem does not work on #{@suite}" unless ran
      end
    end

    private

    # What the kernel is told; see its Documentation/admin-guide/binfmt-misc.rst. F: it opens QEMU before the chroot.
    def emulate
      qemu = `sh -c "command -v qemu-#{@cpu}-static"`.strip
      raise Failure, "a clean system for #{@architecture} needs qemu-user-static" if qemu.empty?

      ":pelton:M::#{@magic}:#{MASK}:#{qemu}:F"
    end

    # Two processes may make it at the same time.
    def make
      return if File.directory?(@root)
      raise Failure, "a clean system needs root, mmdebstrap, unshare and ip" unless CleanSystem.possible?

      FileUtils.mkdir_p(File.dirname(@root))
      fresh = "#{@root}.#{$$}"
      source = `bash -c '. #{ROOT}/.ci/debian.sh; debian_uri'`.strip
      raise Failure, "no Debian source found in /etc/apt" if source.empty?

      NativeBuild.run({}, "mmdebstrap", "--variant=extract", "--include=#{PACKAGES}",
                      *("--architectures=#{@architecture}" if @architecture), @suite, fresh, source)
      File.rename(fresh, @root)
    ensure
      FileUtils.rm_rf(fresh) if fresh
    end
  end
end
