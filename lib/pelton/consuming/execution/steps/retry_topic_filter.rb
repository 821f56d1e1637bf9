# frozen_string_literal: true

module Pelton
  module Consuming
    module Steps
      # In a retry topic: leaves out what failed in another group, which reads the topic, too. What failed in this one
      # under a former name is its own.
      class RetryTopicFilter
        def self.for(topic, _bus) = topic.stage && new([topic.stage.group, *topic.former_groups])

        #: (Array[String]) -> void
        def initialize(groups) = @groups = groups

        def reason = :of_another_group

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| ours?(message.origin) })

        private

        # Whoever else wrote it there meant everybody.
        def ours?(origin) = origin.nil? || @groups.include?(origin.group)
      end
    end
  end
end
