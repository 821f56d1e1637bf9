# frozen_string_literal: true

require "fileutils"
require "rbconfig"

# What a process takes of the system: Ruby and native threads, descriptors, memory.
#
# Memory is what is in use, by the books of both allocators (C, Rust, librdkafka and what Ruby allocates there) and by
# the number of Ruby's objects. The resident size includes holes: threads that come and go leave megabytes in arenas.
class Footprint
  # Bytes that were allocated and not freed, by libc's allocator and by the extension's own.
  module Malloc
    SOURCE = File.expand_path("malloc_books.c", __dir__)
    # One for each Ruby, e.g. "target/malloc_books/3.1.0/malloc_books.so".
    LIBRARY = File.expand_path("../../target/malloc_books/#{RbConfig::CONFIG.fetch("ruby_version")}/malloc_books.so",
                               __dir__)

    class << self
      def used = libc + (Pelton::Native.allocator_memory&.fetch(:allocated) || 0)

      private

      def libc
        compile unless File.exist?(LIBRARY) && File.mtime(LIBRARY) > File.mtime(SOURCE)
        require LIBRARY
        MallocBooks.used
      end

      # Test files run side by side, so the library appears whole.
      def compile
        part = "#{LIBRARY}.#{Process.pid}"
        FileUtils.mkdir_p(File.dirname(LIBRARY))
        headers = RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir").map { |folder| "-I#{folder}" }
        system("cc", "-shared", "-fPIC", "-O1", *headers, "-o", part, SOURCE, exception: true)
        File.rename(part, LIBRARY)
      end
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
    stacks = ObjectSpace.each_object(Thread).count * STACK
    @kilobytes = (Malloc.used + (GC.stat(:heap_live_slots) * SLOT) - stacks) / 1024
  end

  # Nothing of an earlier one was added to, but for the memory that the limit allows, and threads of Ruby's that are
  # meant to be there now.
  def within?(earlier, more_kilobytes, more_threads: 0)
    ruby_threads <= earlier.ruby_threads + more_threads && threads <= earlier.threads + more_threads &&
      descriptors <= earlier.descriptors && kilobytes <= earlier.kilobytes + more_kilobytes
  end

  def to_s
    "#{ruby_threads} Ruby threads, #{threads} native threads, #{descriptors} descriptors, #{kilobytes} kB in use"
  end
end
