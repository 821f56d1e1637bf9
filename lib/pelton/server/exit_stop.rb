# frozen_string_literal: true

module Pelton
  # Stops the servers that still run at process exit, each within its shutdown_timeout. exit! skips it.
  module ExitStop
    # {server => true}: servers that run in this process. Guarded by LOCK.
    RUNNING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :RUNNING, :LOCK

    #: (Server) -> void
    def self.add(server)
      LOCK.synchronize do
        RUNNING[server] = true
        @at_exit ||= at_exit { LOCK.synchronize { RUNNING.keys }.each { |running| running.stop(reason: "exit") } }
      end
    end

    #: (Server) -> void
    def self.remove(server) = LOCK.synchronize { RUNNING.delete(server) }
  end
end
