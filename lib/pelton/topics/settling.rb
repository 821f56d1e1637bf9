# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Topics
    # Kafka confirms a change before all of it knows: for a moment, the next question gets the state before.
    module Settling
      # Seconds between two questions.
      PAUSE = 0.05
      private_constant :PAUSE

      # Asks the block until it returns true, or until the deadline. A KafkaError counts as not yet.
      #: (Numeric) { () -> bool } -> void
      def self.wait(seconds, &question)
        deadline = Clock.deadline(seconds)
        Clock.wait(PAUSE) until settled?(question) || Clock.left(deadline).zero?
      end

      def self.settled?(question)
        question.call
      rescue KafkaError
        false
      end
      private_class_method :settled?
    end
  end
end
