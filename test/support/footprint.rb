# frozen_string_literal: true

# What a process takes of the system: Ruby and native threads, descriptors, memory.
class Footprint
  attr_reader :ruby_threads, :threads, :descriptors, :kilobytes

  def initialize
    GC.start
    @ruby_threads = Thread.list.size
    @threads = Dir.children("/proc/self/task").size
    @descriptors = Dir.children("/proc/self/fd").size
    @kilobytes = Integer(File.read("/proc/self/status")[/^VmRSS:\s+(\d+) kB/, 1])
  end

  # Nothing of an earlier one was added to, but for the memory that the limit allows.
  def within?(earlier, more_kilobytes)
    ruby_threads <= earlier.ruby_threads && threads <= earlier.threads && descriptors <= earlier.descriptors &&
      kilobytes <= earlier.kilobytes + more_kilobytes
  end

  def to_s
    "#{ruby_threads} Ruby threads, #{threads} native threads, #{descriptors} descriptors, #{kilobytes} kB"
  end
end
