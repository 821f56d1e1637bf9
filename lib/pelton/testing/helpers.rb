# frozen_string_literal: true

require_relative "../testing"
require_relative "checks"

module Pelton
  module Testing
    # What a test has to run consumers without a Kafka. Minitest and RSpec get these methods by
    # `require "pelton/testing/minitest"` or `require "pelton/testing/rspec"`. All of it happens on the test's thread:
    # the real routes, decoding, filters, consumers, retries, retry topics, dead letters and transactions, on topics in
    # memory and on a clock that only `travel` moves.
    #   consumer = consumer_for("orders")
    #   produce("orders", { "id" => 7 }, key: "7")
    #   assert_produced("shipped", key: "7")
    module Helpers
      include Checks

      # Starts the consumers of a topic, and returns the consumer object of one partition: the same one that will get
      # the messages, so a test may prepare it.
      #   consumer_for("orders").mailer = FakeMailer.new
      # group: needed if several groups read the topic. app: an app of your own, which the test uses from here on. With
      # `concurrency`, a partition has several objects, and this is the first.
      # Raises ConfigError, which suggests a name for an unknown topic.
      #: (String, ?group: String?, ?partition: Integer, ?app: App?) -> Consumer
      def consumer_for(topic, group: nil, partition: 0, app: nil)
        Pelton.app = app if app
        group = only_group(topic, group)
        listener = kafka.consumers.activate(topic, group).first
        kafka.topics.broker(topic, group).create(topic, partition + 1)
        run_consumers
        consumer = listener.coordinator(topic, partition)&.executors&.first&.consumer
        return consumer.extend(RunByProduce) if consumer

        raise ConfigError.new("partition", partition, "of #{topic} has no consumer: it was revoked (call assign), or " \
                                                      "the consumer cannot be built (#{consumer_errors.last.inspect})")
      end

      # Produces a message as another application would, then runs consumers until nothing is due. If the test named no
      # group of the topic before, all groups that read it are run. Returns the message as consumers get it.
      #   produce("orders", { "id" => 7 }, key: "7", headers: { "trace" => "42" })
      # payload: a String, nil, or a value that is written in the route's format (JSON, Avro, MessagePack). key: the
      # same, in the format of the route's `key_deserializer`. partition: without it the key decides, and without a key
      # it is 0. timestamp: a Time or milliseconds; default: now. offset: the offsets in between do not exist. group:
      # the consumers of this group only. Raises ConfigError for a topic without a route.
      #: (String, ?untyped, ?key: untyped, ?headers: Hash[String, untyped]?, ?partition: Integer?,
      #:  ?timestamp: (Time | Integer)?, ?offset: Integer?, ?group: String?) -> ::Pelton::Message
      def produce(topic, payload = nil, key: nil, headers: nil, partition: nil, timestamp: nil, offset: nil, group: nil)
        kafka.consumers.activate(topic, group) if kafka.consumers.active(topic, group).empty? && !copies?(topic)
        facts = { key: key, headers: headers, partition: partition, timestamp: timestamp, offset: offset }.compact
        kafka.topics.produce(topic, payload, facts, group).tap { run_consumers unless @pelton_together }
      end

      # Runs no consumer before the end of the block, so that a `consume` gets all that is produced in it.
      #   produce_together { 3.times { |id| produce("orders", { "id" => id }) } }
      #: () { () -> untyped } -> untyped
      def produce_together
        @pelton_together = true
        value = yield
        @pelton_together = false
        run_consumers
        value
      ensure
        @pelton_together = false
      end

      # Runs the consumers of all topics that the test named, until nothing is due. `produce` and `travel` do it, too.
      #   ShipOrder.call(7) # the code under test produces
      #   run_consumers
      #: () -> void
      def run_consumers = kafka.run

      # Moves the clock by this many seconds, and runs what becomes due: retries, retry topics, ticks, ends of pauses.
      # Time.now does not move: in Rails, see RailsTime.
      #   travel 60
      #: (Numeric) -> void
      def travel(seconds) = kafka.travel(Settings::Setting.new(:travel, :seconds, 0, "").check(seconds))

      # Takes partitions away, as a rebalance: consumers finish their call and get `revoked`. Without partitions: all.
      # lost: another member has them already, so marks do not count. In a consumer's own call, `revoked?` is true then.
      #   revoke("orders", 0)
      #: (String, *Integer, ?lost: bool) -> void
      def revoke(topic, *partitions, lost: false)
        listeners(topic).each do |listener|
          listener.client.take_away(topic_partitions(topic, partitions), lost: lost)
          listener.handle_all
        end
        run_consumers
      end

      # Gives revoked partitions back, with new consumer objects. Without partitions: all.
      #   assign("orders", 0)
      #: (String, *Integer) -> void
      def assign(topic, *partitions)
        listeners(topic).each { |listener| listener.client.give(topic_partitions(topic, partitions)) }
        run_consumers
      end

      # Stops the consumers, as Pelton.stop: they get `shutdown`. The next `produce` or `consumer_for` starts new ones.
      #   stop_consumers
      #: () -> void
      def stop_consumers = kafka.stop

      # Creates a topic with this many partitions. Without it, a topic has one, or as many as a `produce` named.
      #   create_topic("orders", partitions: 4)
      #: (String, ?partitions: Integer) -> void
      def create_topic(topic, partitions: 1)
        Settings::Setting.new(:partitions, :count, 1, "").check(partitions)
        kafka.topics.broker(topic).create(topic, partitions)
      end

      # Lets the next messages that the code under test produces fail, of one topic or of all. See
      # BufferedProducer#fail_next.
      #   fail_next(:TOPIC_AUTHORIZATION_FAILED, topic: "shipped")
      #: (Integer | Symbol, ?times: Integer, ?topic: String?) -> void
      def fail_next(error, times: 1, topic: nil)
        failure = Testing.error(error)
        Settings::Setting.new(:times, :count, 1, "").check(times).times { kafka.failures << [topic, failure] }
      end

      # Lets Kafka not confirm the commit of the next transaction of the code under test: `transaction` raises a
      # TransactionError with the reason :unknown. :unknown: nothing is committed. :committed: all is committed. In a
      # consumer that marked, the next `transaction` then raises a TransactionError with this reason.
      #   fail_next_commit(:committed)
      # Raises ConfigError for another reason.
      #: (?Symbol) -> void
      def fail_next_commit(reason = :unknown)
        known = %i[unknown committed]
        raise ConfigError.new(:reason, reason, "allowed: #{known.join(", ")}") unless known.include?(reason)

        kafka.unconfirmed_commits << reason
      end

      # The messages that the code under test produced, of one topic or of all, without those of `produce`. Retry topics
      # and dead letters are among them. `payload`, `key` and `headers` are decoded as the topic's route says, or as
      # the first one's if several groups read the topic.
      #   produced_messages("shipped").map(&:payload) # => [{ "id" => 7 }]
      #: (?String?) -> Array[::Pelton::Message]
      def produced_messages(topic = nil) = kafka.topics.produced(topic).each { |message| asserted(message) }

      # The messages that consumers finished, in order and each once: they marked them, or a call returned and so marked
      # them. What was left for later (by `pause`, without a mark in `manual_offsets`), skipped or sent to the dead
      # letters is not among them.
      #   consumed_messages("orders").map(&:key) # => ["7"]
      #: (?String?) -> Array[::Pelton::Message]
      def consumed_messages(topic = nil)
        kafka.histories.flat_map(&:consumed).select { |message| [nil, message.topic].include?(topic) }
      end

      # The errors that consumers raised, in order.
      #   consumer_errors.map(&:class) # => [KeyError]
      #: () -> Array[Exception]
      def consumer_errors = kafka.histories.flat_map(&:calls).filter_map(&:error)

      # The offset that a group has committed: of the next message. nil: nothing is committed.
      #   committed_offset("orders") # => 1
      #: (String, ?Integer, ?group: String?) -> Integer?
      def committed_offset(topic, partition = 0, group: nil)
        group ||= kafka.consumers.routes(topic).keys.first
        kafka.topics.broker(topic, group).committed(group, [topic, partition])&.first
      end

      # From here on, an error that a consumer raises is raised by `produce`, `run_consumers` and `travel`, too.
      # Pelton::Testing.raise_errors = true does it for all tests.
      #   raise_errors
      #: (?bool) -> void
      def raise_errors(raises = true)
        kafka.raises = raises
      end

      # Uses a real Kafka or an embedded cluster in this test: from here on, clients are not in memory. Starting an
      # EmbeddedCluster in a test does it, too.
      #   real_clients
      #: () -> void
      def real_clients
        kafka.real = true
      end

      # A consumer that `consumer_for` returned. A test that calls its `consume` would only see a call without messages.
      module RunByProduce
        #: () -> untyped
        def consume
          return super if @pelton.runs_here? || !messages.empty?

          raise ConsumerError.new(self.class, "consume")
        end
      end

      # For tests with ActiveSupport::Testing::TimeHelpers: `travel` moves Time.now as ever, and then the clock of the
      # test, too.
      module RailsTime
        #: (untyped, **untyped) ?{ () -> untyped } -> untyped
        def travel(seconds, **options)
          ActiveSupport::Testing::TimeHelpers.instance_method(:travel).bind_call(self, seconds, **options)
          kafka.travel(seconds.to_f)
          return unless block_given?

          begin
            yield
          ensure
            travel_back
          end
        end
      end

      private

      # An assertion was about this message.
      def asserted(message) = kafka.asserted[[*message.topic_partition, message.offset]] = true

      def begin_session
        Session.open
        extend(RailsTime) if defined?(ActiveSupport::Testing::TimeHelpers) && is_a?(ActiveSupport::Testing::TimeHelpers)
      end

      # With Pelton::Testing.strict: messages of the code under test that no assertion was about. Ends the session.
      def end_session
        session = Session.current or return []
        all = Testing.strict ? session.topics.produced : []
        all.reject { |message| Origin.of(message) || session.asserted.key?([*message.topic_partition, message.offset]) }
      ensure
        session&.close
      end

      # The session of this test.
      def kafka
        Session.current ||
          raise(ConfigError.new("pelton/testing", nil, "works in tests only: call super in before_setup"))
      end

      def only_group(topic, group)
        groups = kafka.consumers.routes(topic, group).keys
        return groups.first if groups.one?

        reason = "#{topic} is read by the groups #{groups.join(" and ")}: add group: #{groups.first.inspect}"
        raise ConfigError.new("group", nil, reason)
      end

      def listeners(topic)
        found = kafka.consumers.active(topic)
        found.empty? ? kafka.consumers.activate(topic) : found
      end

      def topic_partitions(topic, partitions)
        all = (0...kafka.topics.broker(topic).partition_count(topic)).to_a
        unknown = partitions - all
        raise ConfigError.new("partition", unknown.first, "#{topic} has the partitions #{all}") if unknown.any?

        (partitions.empty? ? all : partitions).map { |partition| [topic, partition] }
      end

      # Is it a topic of failed messages that no route reads?
      def copies?(topic) = kafka.consumers.groups.any? { |group| group.names.include?(topic) && !reads?(group, topic) }
      def reads?(group, topic) = group.topics.each_value.any? { |route| route.match?(topic) }
    end
  end
end
