# frozen_string_literal: true

require_relative "../../../message/origin"

module Pelton
  module Consuming
    module Steps
      # In a retry topic: drops messages that failed in another group, which reads the same retry topic. former_groups
      # are earlier names of this group.
      class RetryTopicFilter
        def self.for(topic, _bus) = topic.stage && new([topic.stage.group, *topic.former_groups])

        #: (Array[String]) -> void
        def initialize(groups) = @groups = groups

        def reason = :of_another_group

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| ours?(Origin.of(message)) })

        private

        # A message without an origin was not written by Pelton, so every group gets it.
        def ours?(origin) = origin.nil? || @groups.include?(origin.group)
      end
    end
  end
end
