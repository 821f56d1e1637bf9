# frozen_string_literal: true

module Pelton
  # What the machine or container allows this process, by its control groups of version 1 or 2.
  #
  # root: the folder that has /proc and /sys. read: reads a file of the kernel; the native one asks no fiber scheduler.
  module Container
    class << self
      # Bytes of memory that this process may use: the machine's, or the lowest limit. nil if the system does not say.
      #: (?root: String, ?read: ^(String) -> String) -> Integer?
      def memory(root: "", read: Native.method(:read_kernel_file))
        total = read.("#{root}/proc/meminfo")[/^MemTotal:\s+(\d+) kB/, 1].to_i * 1024
        [total, *limits(root, "memory", read) { |folder| bytes(folder, read) }].min
      rescue SystemCallError
        nil
      end

      # Cores that this process may use: those that it may run on, or the lowest quota (in Kubernetes: limits.cpu),
      # rounded down. At least 1.
      #: (?root: String, ?read: ^(String) -> String) -> Integer
      def cores(root: "", read: Native.method(:read_kernel_file))
        require "etc" # late: most programs that load Pelton need none of this
        [[Etc.nprocessors, *limits(root, "cpu", read) { |folder| quota(folder, read) }].min, 1].max
      end

      private

      # A limit holds for all groups below, so those of the group and of all above it count. In a container, the path
      # may be the host's: what is not there is skipped.
      def limits(root, controller, read, &limit)
        read.("#{root}/proc/self/cgroup").lines(chomp: true).flat_map do |line|
          _, controllers, path = line.split(":", 3)
          next [] unless controllers == "" || controllers.split(",").include?(controller)

          folder = "#{root}/sys/fs/cgroup#{"/#{controller}" unless controllers == ""}"
          above(path).filter_map { |group| limit.call("#{folder}#{group}") }
        end
      rescue SystemCallError
        []
      end

      # "/a/b" → ["/a/b", "/a", ""]
      def above(path)
        groups = [path.delete_suffix("/")]
        groups << groups.last[0...groups.last.rindex("/")] while groups.last.include?("/")
        groups
      end

      # nil: no limit ("max").
      def bytes(folder, read)
        limit = (text("#{folder}/memory.max", read) || text("#{folder}/memory.limit_in_bytes", read)).to_i
        limit if limit.positive?
      end

      # nil: no quota ("max" or -1).
      def quota(folder, read)
        text = text("#{folder}/cpu.max", read) ||
               "#{text("#{folder}/cpu.cfs_quota_us", read)} #{text("#{folder}/cpu.cfs_period_us", read)}"
        microseconds, period = text.split.map(&:to_i)
        microseconds / period if microseconds&.positive? && period&.positive?
      end

      def text(file, read)
        read.(file)
      rescue SystemCallError
        nil
      end
    end
  end
end
