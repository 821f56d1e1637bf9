# frozen_string_literal: true

module Pelton
  module Processing
    module Steps
      # In a retry topic: leaves out what failed in another group, which reads the topic, too.
      class OwnFailures
        def self.for(topic, _bus) = topic.stage && new(topic.stage.group)

        #: (String) -> void
        def initialize(group) = @group = group

        def reason = :of_another_group

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| ours?(message.origin) })

        private

        # Whoever else wrote it there meant everybody.
        def ours?(origin) = origin.nil? || origin.group == @group
      end
    end
  end
end
