# frozen_string_literal: true

require_relative "../../runtime/native"
require_relative "../buffered"
require_relative "admin"
require_relative "kafka"
require_relative "poller"
require_relative "producer"
require_relative "subscription"

module Pelton
  module Testing
    # Replaces Pelton::Native while a test runs (see Session): its clients are in memory, without threads and
    # connections. They use the brokers of the session that runs when they are used, so a client in a constant serves
    # all tests.
    module Memory
      POLLER = Poller.new
      private_constant :POLLER

      class << self
        # The poller of all clients in memory.
        #: () -> Poller
        def poller = POLLER

        # The session of the calling thread. Raises ClosedError outside of tests.
        #: () -> Session
        def session = Session.current || raise(ClosedError, "a client of pelton/testing, whose test has ended, and it")

        # The broker that a client with these options connects to.
        #: (Hash[String, String]) -> Kafka
        def broker(settings) = session.broker(settings["bootstrap.servers"])

        def decoding_threads=(count)
          Native.decoding_threads = count
        end

        def decoding_memory=(bytes)
          Native.decoding_memory = bytes
        end

        def limit_memory(...) = Native.limit_memory(...)
        def memory = Native.memory

        # No client asks for tokens.
        def next_token_requests(timeout) = Buffered.next_token_requests(timeout)
      end
    end
  end
end
