# frozen_string_literal: true

module Fakes
  # What clients got for a request for a token: [token, milliseconds, principal, extensions], or the reason of a
  # failure.
  module Tokens
    def tokens = @tokens ||= Thread::Queue.new

    def set_oauth_token(*token)
      raise ::Pelton::ClosedError, @name if @closed

      tokens << token
    end

    def set_oauth_failure(reason) # rubocop:disable Naming/AccessorMethodName -- the extension's name
      raise ::Pelton::ClosedError, @name if @closed

      tokens << reason
    end
  end
end
