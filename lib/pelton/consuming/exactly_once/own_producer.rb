# frozen_string_literal: true

module Pelton
  module Consuming
    class ExactlyOnce
      # The producer that an executor has for itself if its topic is `transactional`. It opens at its first use.
      class OwnProducer
        # Seconds that the executor's end waits for the producer's close.
        CLOSE_TIMEOUT = 5
        private_constant :CLOSE_TIMEOUT

        #: (Coordinator, Routing::Topic) -> void
        def initialize(coordinator, topic)
          @coordinator = coordinator
          @topic = topic
          @producer = nil
        end

        # Returns the producer. Opens it at the first call, and at the first one after a `close`.
        #: () -> Producer
        def producer
          @producer ||= @coordinator.owner.open_producer(transactional_id, @coordinator.facts)
        end

        #: () -> void
        def close
          @producer&.close(timeout: CLOSE_TIMEOUT)
          @producer = nil
        end

        #: (Producer) -> bool
        def same?(producer) = producer.equal?(@producer)

        private

        # "billing/group/orders/3". Names of topics have no slash, so two partitions never have the same id.
        def transactional_id
          group, topic, partition = @coordinator.facts.values_at(:group, :topic, :partition)
          group = group.gsub(%r{[/%]}, "/" => "%2F", "%" => "%25")
          [@topic.transactional, group, topic, partition].join("/")
        end
      end
    end
  end
end
