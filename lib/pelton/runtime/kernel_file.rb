# frozen_string_literal: true

module Pelton
  # Reads what the kernel shows as a file, such as /proc/self/status. That never waits, so a fiber's scheduler is left
  # out: it would read through IO::Buffer, and Ruby warns that this is experimental.
  module KernelFile
    # Raises SystemCallError.
    #: (String) -> String
    def self.read(path) = Fiber.new(blocking: true) { File.read(path) }.resume
  end
end
