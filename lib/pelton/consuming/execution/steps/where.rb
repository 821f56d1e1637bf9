# frozen_string_literal: true

require_relative "../../../routing/condition"

module Pelton
  module Consuming
    module Steps
      # Evaluates the topic's `where` for messages that native code could not decide. Those that it refused are not in
      # the batch any more.
      class Where
        def self.for(topic, bus) = topic.where && new(topic.where, bus)

        #: (Array[untyped], Notifications) -> void
        def initialize(tree, bus)
          @tree = tree
          @bus = bus
        end

        def reason = :where

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| admit?(message) })

        private

        def admit?(message)
          !message.undecided? || Routing::Condition.admits?(@tree, message) do |error|
            @bus.publish("error.occurred", error: error, source: "where", topic: message.topic,
                                           partition: message.partition, offset: message.offset)
          end
        end
      end
    end
  end
end
