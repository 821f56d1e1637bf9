# frozen_string_literal: true

begin
  require "fiddle" # from Ruby 4.0 on a gem that may be absent: memory is then not looked at, and the text says so
rescue LoadError
  nil
end
require "tempfile"

# What a process takes of the system: Ruby and native threads, descriptors, memory.
#
# Memory is what is in use, by the books of both allocators (C, Rust, librdkafka and what Ruby allocates there) and by
# the number of Ruby's objects. The resident size includes holes: threads that come and go leave megabytes in arenas.
class Footprint
  # malloc_info(3) writes to a FILE of C's.
  module Malloc
    # Bytes that were allocated and not freed, by libc's allocator and by the extension's own.
    def self.used = libc + (Pelton::Native.allocator_memory&.fetch(:allocated) || 0)

    def self.libc
      all = report[%r{.*</heap>(.*)}m, 1] # the sums over all arenas come last
      sum = ->(pattern) { all.scan(pattern).sum { |size,| Integer(size) } }
      sum.(/<system type="current" size="(\d+)"/) + sum.(/<total type="mmap" .*size="(\d+)"/) -
        sum.(/<total type="(?:fast|rest)" .*size="(\d+)"/)
    end

    def self.report
      Tempfile.create("malloc") do |file|
        handle = call("fopen", Fiddle::TYPE_VOIDP, file.path, "w")
        call("malloc_info", Fiddle::TYPE_INT, 0, handle)
        call("fclose", Fiddle::TYPE_INT, handle)
        file.read
      end
    end

    def self.call(name, result, *arguments)
      types = arguments.map { |argument| argument.is_a?(Integer) ? Fiddle::TYPE_LONG : Fiddle::TYPE_VOIDP }
      Fiddle::Function.new(Fiddle.dlopen(nil)[name], types, result).call(*arguments)
    end
  end

  SLOT = 40 # bytes of Ruby's smallest object
  # From Ruby 3.3 on a thread's stack is malloc's, until the Thread is collected, which may be any time after its end.
  STACK = RUBY_VERSION >= "3.3" ? RubyVM::DEFAULT_PARAMS[:thread_vm_stack_size] : 0

  attr_reader :ruby_threads, :threads, :descriptors, :kilobytes

  def initialize
    GC.start
    @ruby_threads = Thread.list.size
    @threads = Dir.children("/proc/self/task").size
    @descriptors = Dir.children("/proc/self/fd").size
    return unless defined?(Fiddle)

    stacks = ObjectSpace.each_object(Thread).count * STACK
    @kilobytes = (Malloc.used + (GC.stat(:heap_live_slots) * SLOT) - stacks) / 1024
  end

  # Nothing of an earlier one was added to, but for the memory that the limit allows, and threads of Ruby's that are
  # meant to be there now.
  def within?(earlier, more_kilobytes, more_threads: 0)
    ruby_threads <= earlier.ruby_threads + more_threads && threads <= earlier.threads + more_threads &&
      descriptors <= earlier.descriptors && (kilobytes.nil? || kilobytes <= earlier.kilobytes + more_kilobytes)
  end

  def to_s
    "#{ruby_threads} Ruby threads, #{threads} native threads, #{descriptors} descriptors, " \
      "#{kilobytes ? "#{kilobytes} kB in use" : "memory not measured: there is no fiddle"}"
  end
end
