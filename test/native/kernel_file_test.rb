# frozen_string_literal: true

require "test_helper"
require "pelton/runtime/container"
require "pelton/runtime/resource_monitor"
require "support/small_scheduler"

module Pelton
  class KernelFileTest < Minitest::Test
    # A scheduler that reads, too.
    class Reader < SmallScheduler
      READ = Thread::Queue.new

      def io_read(io, *)
        READ << io
        -Errno::ENOSYS::Errno # Ruby then reads itself
      end
    end

    def test_scheduler_of_a_fiber_reads_nothing_for_memory_limits_and_threads
      found = nil
      Reader.run { found = [Container.memory, ResourceMonitor.resident, ResourceMonitor.measure] }
      assert_operator found[0], :>, found[1]
      assert_operator found[2][:native_threads].values.sum, :>=, 1
      assert_empty Reader::READ
    end

    def test_file_that_cannot_be_read_is_a_system_call_error_with_its_path
      error = assert_raises(Errno::ENOENT) { Native.read_kernel_file("/proc/self/nothing") }
      assert_equal "No such file or directory - /proc/self/nothing", error.message
      assert_raises(Errno::EISDIR) { Native.read_kernel_file("/proc") }
    end
  end
end
