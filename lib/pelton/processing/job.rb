# frozen_string_literal: true

module Pelton
  module Processing
    # One call into a consumer, on its way from the coordinator to a worker.
    #   kind      :assigned, :consume, :revoked or :shutdown
    #   messages  what consume is given; nil for the others
    #   attempt   which try it is of the first of them
    #   facts     {group:, topic:, partition:} for events
    Job = Struct.new(:coordinator, :kind, :messages, :attempt, :facts) do
      # On a worker's thread.
      def call = coordinator.perform(self)
    end
  end
end
