# frozen_string_literal: true

require_relative "native"

module Pelton
  # What the machine or container allows this process.
  module Container
    # Bytes of memory that this process may use: the machine's, or the lowest limit of its control groups, of version 1
    # or 2. nil if the system does not say. root: the folder that has /proc and /sys.
    #: (?root: String) -> Integer?
    def self.memory(root: "")
      total = Native.read_kernel_file("#{root}/proc/meminfo")[/^MemTotal:\s+(\d+) kB/, 1].to_i * 1024
      [total, *limits(root)].min
    rescue SystemCallError
      nil
    end

    # A limit holds for all groups below, so those of the group and of all above it count. In a container, the path may
    # be the host's: what is not there is skipped.
    def self.limits(root)
      Native.read_kernel_file("#{root}/proc/self/cgroup").lines(chomp: true).flat_map do |line|
        _, controllers, path = line.split(":", 3)
        folder, file = if controllers == ""
                         ["#{root}/sys/fs/cgroup", "memory.max"]
                       elsif controllers.split(",").include?("memory")
                         ["#{root}/sys/fs/cgroup/memory", "memory.limit_in_bytes"]
                       end
        folder ? above(path).filter_map { |group| limit("#{folder}#{group}/#{file}") } : []
      end
    rescue SystemCallError
      []
    end

    # "/a/b" → ["/a/b", "/a", ""]
    def self.above(path)
      groups = [path.delete_suffix("/")]
      groups << groups.last[0...groups.last.rindex("/")] while groups.last.include?("/")
      groups
    end

    # nil: there is none ("max").
    def self.limit(file)
      bytes = Native.read_kernel_file(file).to_i
      bytes if bytes.positive?
    rescue SystemCallError
      nil
    end
    private_class_method :limits, :above, :limit
  end
end
