# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/native"

module Pelton
  module Testing
    module Memory
      # Replaces a native admin client: creates and describes topics. Everything else raises ConfigError.
      class Admin
        UNKNOWN_TOPIC = 3
        EXISTS = 36
        # The only broker.
        BROKER = 0
        private_constant :UNKNOWN_TOPIC, :EXISTS, :BROKER

        #: (String, Hash[String, String], ?Hash[Symbol, untyped]) -> void
        def initialize(_name, settings, _polling = {})
          @settings = settings
        end

        # Returns rows, as Native::Admin.
        def request(kind, argument, _timeout)
          case kind
          when :topics then argument.map { |name| describe(name) }
          when :create_topic then [create(*argument)]
          when :create_partitions then [[argument.first, kafka.create(*argument) && nil]]
          else
            raise ConfigError.new("Pelton.admin", kind.to_s, "needs a Kafka: start a Pelton::Testing::Cluster in the " \
                                                             "test, or call `real_clients`")
          end
        end

        def topics(_timeout) = kafka.topics
        def renew = nil
        def close(_timeout) = true

        # Accepted, for a config with `oauth`.
        def set_oauth_token(*) = nil
        def set_oauth_failure(*) = nil

        private

        def kafka = Memory.broker(@settings)

        def describe(name)
          return [name, Native.error(UNKNOWN_TOPIC), false, []] unless kafka.topic?(name)

          [name, nil, false, Array.new(kafka.partition_count(name)) { |number| [number, BROKER, [BROKER], [BROKER]] }]
        end

        def create(name, partitions, *)
          return [name, Native.error(EXISTS)] if kafka.topic?(name)

          kafka.create(name, partitions)
          [name, nil]
        end
      end
    end
  end
end
