# frozen_string_literal: true

require "fiddle"
require "tempfile"

# What a process takes of the system: Ruby and native threads, descriptors, memory.
#
# Memory is what is in use, by malloc's own books (C, Rust, librdkafka and what Ruby allocates there) and by the number
# of Ruby's objects. The resident size tells of holes instead: threads that come and go leave megabytes in arenas.
class Footprint
  # malloc_info(3) writes to a FILE of C's.
  module Malloc
    LIBC = Fiddle.dlopen(nil)
    OPEN = Fiddle::Function.new(LIBC["fopen"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP)
    CLOSE = Fiddle::Function.new(LIBC["fclose"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
    INFO = Fiddle::Function.new(LIBC["malloc_info"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)

    # Bytes that somebody allocated and nobody freed.
    def self.used
      all = report[%r{.*</heap>(.*)}m, 1] # the sums over all arenas come last
      sum = ->(pattern) { all.scan(pattern).sum { |size,| Integer(size) } }
      sum.(/<system type="current" size="(\d+)"/) + sum.(/<total type="mmap" .*size="(\d+)"/) -
        sum.(/<total type="(?:fast|rest)" .*size="(\d+)"/)
    end

    def self.report
      Tempfile.create("malloc") do |file|
        handle = OPEN.call(file.path, "w")
        INFO.call(0, handle)
        CLOSE.call(handle)
        file.read
      end
    end
  end

  SLOT = 40 # bytes of Ruby's smallest object

  attr_reader :ruby_threads, :threads, :descriptors, :kilobytes

  def initialize
    GC.start
    @ruby_threads = Thread.list.size
    @threads = Dir.children("/proc/self/task").size
    @descriptors = Dir.children("/proc/self/fd").size
    @kilobytes = (Malloc.used + (GC.stat(:heap_live_slots) * SLOT)) / 1024
  end

  # Nothing of an earlier one was added to, but for the memory that the limit allows.
  def within?(earlier, more_kilobytes)
    ruby_threads <= earlier.ruby_threads && threads <= earlier.threads && descriptors <= earlier.descriptors &&
      kilobytes <= earlier.kilobytes + more_kilobytes
  end

  def to_s
    "#{ruby_threads} Ruby threads, #{threads} native threads, #{descriptors} descriptors, #{kilobytes} kB in use"
  end
end
