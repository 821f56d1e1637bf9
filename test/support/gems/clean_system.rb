# frozen_string_literal: true

require "fileutils"
require "tmpdir"

module Gems
  # A Debian with Ruby and nothing else of use: no compiler, no Rust, no network. A gem is installed and used in it.
  # Needs root, and mmdebstrap to make it; it is kept in the cache folder, and nothing is ever written to it.
  class CleanSystem
    # They are unpacked and not set up, which takes half a minute instead of two.
    PACKAGES = "base-files,ruby,dash,coreutils"
    FILES = %w[gems/in_clean_system.rb gems/first_use.rb tls_server.rb certificates.rb].freeze
    # In namespaces of its own, so what it mounts and starts ends with it.
    ENTER = <<~SHELL
      mount -t tmpfs tmpfs "$1/tmp"
      mount -t proc proc "$1/proc"
      cp -r "$2/." "$1/tmp"
      ip link set lo up
      exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 GEM_HOME=/tmp/home \\
        ruby /tmp/in_clean_system.rb
    SHELL

    def self.possible?
      Process.uid.zero? && %w[mmdebstrap unshare ip].all? { |tool| system("command -v #{tool} >/dev/null") }
    end

    # suite: Debian's name of a release, such as "trixie"
    def initialize(suite)
      @suite = suite
      cache = ENV.fetch("XDG_CACHE_HOME") { File.join(Dir.home, ".cache") }
      @root = File.join(cache, "pelton", "debian-#{suite}")
    end

    # Prints what happened in it, and raises a Failure if that failed.
    #: (String) -> void
    def try(gem)
      make
      puts "#{@suite}:"
      Dir.mktmpdir("pelton-clean") do |folder|
        FileUtils.cp(gem, folder)
        FILES.each { |file| FileUtils.cp("#{ROOT}/test/support/#{file}", folder) }
        ran = system("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
                     "sh", "-euc", ENTER, "sh", @root, folder)
        raise Failure, "the gem does not work on #{@suite}" unless ran
      end
    end

    private

    # Two processes may make it at the same time.
    def make
      return if File.directory?(@root)
      raise Failure, "a clean system needs root, mmdebstrap, unshare and ip" unless CleanSystem.possible?

      FileUtils.mkdir_p(File.dirname(@root))
      fresh = "#{@root}.#{$$}"
      source = `bash -c '. #{ROOT}/.ci/debian.sh; debian_uri'`.strip
      raise Failure, "no Debian source found in /etc/apt" if source.empty?

      NativeBuild.run({}, "mmdebstrap", "--variant=extract", "--include=#{PACKAGES}", @suite, fresh, source)
      File.rename(fresh, @root)
    ensure
      FileUtils.rm_rf(fresh) if fresh
    end
  end
end
