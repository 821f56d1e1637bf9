# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # Calls config.on_error for the failures of an app, once for each exception object. What librdkafka repairs
  # itself (a lost connection, a broker that restarts) is not a failure of the app; a fatal error is. Thread-safe.
  class ErrorHook
    # So many exceptions are remembered, so that one that two places report is passed on once.
    REMEMBERED = 64
    private_constant :REMEMBERED

    # Does librdkafka repair it by itself?
    #: (Events::Event) -> bool
    def self.repaired?(event)
      event[:source] == "kafka" && !(event[:error].is_a?(KafkaError) && event[:error].fatal?)
    end

    def initialize
      # Object ids of the last exceptions. Guarded by @lock.
      @seen = []
      @lock = Mutex.new
    end

    # hook: config.on_error, or nil. event: error.occurred.
    #: (_Callable?, Events::Event) -> void
    def call(hook, event)
      return unless hook

      error = event[:error]
      return if ErrorHook.repaired?(event) || !error.is_a?(Exception) || !first?(error)

      hook.call(error, event.payload.except(:error).compact.freeze)
    end

    private

    def first?(error)
      @lock.synchronize do
        next false if @seen.include?(error.object_id)

        @seen.shift if @seen.size == REMEMBERED
        @seen << error.object_id
        true
      end
    end
  end
end
