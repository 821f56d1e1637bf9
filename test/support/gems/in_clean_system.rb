# frozen_string_literal: true

# Runs as root of a clean system: installs the gem that lies beside this file, and uses it.

require "etc"
require "socket"

MAXIMUM_SECONDS = ENV["EMULATED"].to_s.empty? ? 5 : Float::INFINITY

$stdout.sync = true
compilers = %w[cc gcc clang cargo rustc make].select { |tool| system("command -v #{tool} >/dev/null") }
abort "this system is not clean: #{compilers.join(" ")}" if compilers.any?
local = Socket.ip_address_list.all? { |address| address.ipv4_loopback? || address.ipv6_loopback? }
abort "this system has a network" unless local

Dir.chdir(__dir__)
gem = Dir.glob("pelton-*.gem").first
before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
system("gem", "install", "--local", "--no-document", gem, out: File::NULL) || abort("#{gem} cannot be installed")
wall = Process.clock_gettime(Process::CLOCK_MONOTONIC) - before
used = Process.times.then { |times| times.cutime + times.cstime }
abort format("installing takes %.1f s of CPU time: at most %d s", used, MAXIMUM_SECONDS) if used > MAXIMUM_SECONDS

libc = begin
  Etc.confstr(Etc::CS_GNU_LIBC_VERSION)
rescue SystemCallError # musl knows the question, and refuses it
  "no glibc"
end
puts format("  Ruby %s, %s: installed in %.1f s (%.1f s of CPU time)", RUBY_VERSION, libc, wall, used)
exec "ruby", "-w", "first_use.rb"
