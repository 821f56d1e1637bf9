# frozen_string_literal: true

require "etc"

# How the extension is compiled and linked, where it shall be small: extconf.rb and bin/gems ask it.
module Flags
  # Each function in a section of its own, so that the linker leaves out what nothing calls. zstd without the formats
  # of its versions before 0.8: Kafka has zstd since 2018, and no client ever wrote them there.
  C = "-ffunction-sections -fdata-sections -UZSTD_LEGACY_SUPPORT"
  # OpenSSL has its fast parts in assembly language. Nothing unwinds through it: no Rust and no Ruby runs below it.
  OPENSSL = "-Os -fno-unwind-tables -fno-asynchronous-unwind-tables"
  # The list of addresses that the loader adjusts has a bit for each, instead of 24 bytes.
  PACKED = "-Wl,-z,pack-relative-relocs"
  # The oldest glibc whose loader reads that list. Older linkers ignore the flag.
  PACKED_SINCE = "2.36"

  module_function

  # For the linker of an extension that runs on this machine. libc: its name, for example "glibc 2.36".
  def link(libc = libc_here)
    glibc = libc.to_s[/\Aglibc (\d+\.\d+)/, 1]
    glibc && Gem::Version.new(glibc) >= Gem::Version.new(PACKED_SINCE) ? PACKED : ""
  end

  # nil: another libc than glibc.
  def libc_here
    Etc.confstr(Etc::CS_GNU_LIBC_VERSION)
  rescue NameError, SystemCallError
    nil
  end
end
