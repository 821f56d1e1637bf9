# frozen_string_literal: true

# Errors of the outbox and the inbox. errors.rb loads this file.
module Pelton
  # `Pelton::Outbox.produce` was called outside of a database transaction. Nothing was written.
  # What to do: Call it in the block of `transaction`, beside the changes that the message is about; or send the message
  # with `Pelton.producer`.
  #   OutboxTransactionError.new("orders")
  class OutboxTransactionError < Error
    attr_reader :topic

    #: (?String?) -> void
    def initialize(topic = nil)
      @topic = topic
      super("Outbox.produce to #{topic || "a topic"} was called outside of a database transaction, so nothing was " \
            "written: call it in the block of ActiveRecord::Base.transaction, beside the changes it belongs to")
    end
  end
end
