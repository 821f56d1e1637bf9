# frozen_string_literal: true

# Errors of the server. errors.rb loads this file.
module Pelton
  # A call needs a running server, but it is stopping or stopped; or an app was started twice.
  # What to do: Check `Pelton.server.status` first, or stop the server before you start it again.
  class ShutdownError < Error
    #: (?String) -> void
    def initialize(message = "the server is stopping") = super
  end

  # The server did not stop in time, or was asked twice, and ended by force.
  # What to do: Raise `shutdown_timeout` or make jobs shorter.
  #   ForcedShutdown.new(["orders/0: job runs for 61.2 s, 88 messages not finished"])
  class ForcedShutdown < ShutdownError
    attr_reader :unfinished_work

    #: (?Array[String]) -> void
    def initialize(unfinished_work = [])
      @unfinished_work = unfinished_work
      super("forced to stop#{": #{unfinished_work.join("; ")}" unless unfinished_work.empty?}")
    end
  end
end
