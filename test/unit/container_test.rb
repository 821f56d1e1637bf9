# frozen_string_literal: true

require "test_helper"
require "etc"
require "fileutils"
require "tmpdir"
require "pelton/runtime/container"

module Pelton
  class ContainerTest < Minitest::Test
    MB = 1 << 20
    TWO = { "proc/self/cgroup" => "0::/a/b\n" }.freeze
    ONE = { "proc/self/cgroup" => "5:cpu,cpuacct:/\n4:hugetlb,memory:/docker/1\n0::/\n" }.freeze

    def test_the_lowest_limit_of_memory_counts_in_control_groups_of_version_2
      assert_equal 8192 * MB, memory({})
      assert_equal 8192 * MB, memory({ **TWO, "sys/fs/cgroup/a/b/memory.max" => "max\n" })
      limits = { "sys/fs/cgroup/a/b/memory.max" => "#{400 * MB}\n", "sys/fs/cgroup/a/memory.max" => "#{300 * MB}\n" }
      assert_equal 300 * MB, memory({ **TWO, **limits })
      assert_equal 200 * MB,
                   memory({ "proc/self/cgroup" => "0::/\n", "sys/fs/cgroup/memory.max" => "#{200 * MB}\n" })
    end

    def test_the_lowest_limit_of_memory_counts_in_control_groups_of_version_1
      file = "sys/fs/cgroup/memory/memory.limit_in_bytes"

      assert_equal 8192 * MB, memory({ **ONE, file => "9223372036854771712\n" })
      assert_equal 256 * MB, memory({ **ONE, file => "#{256 * MB}\n" })
    end

    def test_a_system_that_does_not_say_how_much_memory_it_has
      assert_nil Container.memory(root: "/nowhere")
    end

    def test_the_lowest_quota_of_cores_counts_rounded_down_in_control_groups_of_version_2
      assert_equal 16, cores(TWO)
      assert_equal 16, cores({ **TWO, "sys/fs/cgroup/a/b/cpu.max" => "max 100000\n" })
      assert_equal 2, cores({ **TWO, "sys/fs/cgroup/a/b/cpu.max" => "250000 100000\n" })
      assert_equal 1, cores({ **TWO, "sys/fs/cgroup/a/b/cpu.max" => "25000 50000\n" })
      both = { "sys/fs/cgroup/a/b/cpu.max" => "800000 100000\n", "sys/fs/cgroup/a/cpu.max" => "300000 100000\n" }
      assert_equal 3, cores({ **TWO, **both })
    end

    def test_the_lowest_quota_of_cores_counts_rounded_down_in_control_groups_of_version_1
      quota, period = %w[quota period].map { |name| "sys/fs/cgroup/cpu/cpu.cfs_#{name}_us" }

      assert_equal 16, cores({ **ONE, quota => "-1\n", period => "100000\n" })
      assert_equal 4, cores({ **ONE, quota => "450000\n", period => "100000\n" })
      assert_equal 16, cores({ **ONE, quota => "450000\n" }), "without a period"
    end

    def test_a_quota_above_the_cores_of_the_machine_does_not_count
      assert_equal 16, cores({ **TWO, "sys/fs/cgroup/a/b/cpu.max" => "3200000 100000\n" })
    end

    def test_a_system_without_control_groups_has_the_cores_of_the_machine
      assert_equal 16, Etc.stub(:nprocessors, 16) { Container.cores(root: "/nowhere") }
    end

    private

    def memory(files) = machine(files) { |root| Container.memory(root: root) }

    def cores(files) = machine(files) { |root| Etc.stub(:nprocessors, 16) { Container.cores(root: root) } }

    # A machine with these files: {"proc/meminfo" => "…"}.
    def machine(files)
      Dir.mktmpdir do |root|
        { "proc/meminfo" => "MemTotal:   8388608 kB\n", **files }.each do |path, text|
          FileUtils.mkdir_p(File.dirname("#{root}/#{path}"))
          File.write("#{root}/#{path}", text)
        end
        yield root
      end
    end
  end
end
