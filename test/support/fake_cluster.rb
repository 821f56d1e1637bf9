# frozen_string_literal: true

module Fakes
  # Native::EmbeddedCluster's methods; records its calls.
  class EmbeddedCluster
    attr_reader :calls

    def initialize(brokers)
      @calls = [[:new, brokers]]
    end

    def bootstrap_servers = "127.0.0.1:9"

    %i[create_topic push_errors topic_error broker_down broker_up round_trip_time watch_requests watched_requests
       close].each do |name|
      define_method(name) do |*arguments|
        @calls << [name, *arguments]
      end
    end
  end
end
