# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  class CLI
    class Doctor
      # The admin clients of the doctor.
      module ClusterAdmin
        # Yields an admin client of the cluster with these options, and closes it; does nothing for an embedded cluster.
        # Waits for Kafka. Raises KafkaError.
        #: (Pelton::Topics, Hash[String, untyped], Numeric) { (Admin) -> void } -> void
        def self.open(topics, kafka, timeout)
          admin = topics.admin(kafka)
          yield admin unless embedded?(admin, timeout)
        ensure
          admin&.close
        end

        # librdkafka's mock cluster refuses this request at once, and leaves others without an answer.
        def self.embedded?(admin, timeout)
          admin.groups(timeout: timeout) && false
        rescue KafkaError => e
          e.name == :_UNSUPPORTED_FEATURE
        end
        private_class_method :embedded?
      end
    end
  end
end
