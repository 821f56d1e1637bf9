# frozen_string_literal: true

require "minitest"
require_relative "helpers"
require_relative "session"

module Pelton
  module Testing
    # Testing consumers and producers with Minitest: `require "pelton/testing/minitest"` gives each test the methods of
    # Helpers and these assertions. Each test has topics, offsets and a clock of its own, and a copy of Pelton.app.
    #   class OrdersConsumerTest < Minitest::Test
    #     def test_ships_the_order
    #       produce("orders", { "id" => 7 })
    #       assert_produced("shipped", payload: { "id" => 7 })
    #     end
    #   end
    # Each assertion is about one topic. Its criteria are compared by == and ===, so a class, a Regexp or a Range will
    # do; headers need only contain the given ones. A block gets each candidate and returns whether it fits. It returns
    # what it found: one message, or with `count:` or `times:` an Array. refute_… is the opposite.
    module Minitest
      include Helpers

      # @!method assert_produced(topic, count: nil, **criteria)
      #   The code under test produced such a message. Criteria: payload, key, headers, partition, offset, timestamp.
      #     assert_produced("shipped", payload: { "id" => 7 }, key: "7", headers: { "trace" => "42" })
      # @!method assert_consumed(topic, count: nil, **criteria)
      #   A consumer finished such a message; criteria as above.
      #     assert_consumed("orders", count: 3)
      # @!method assert_failed(topic, times: nil, **criteria)
      #   A call of a consumer raised. Criteria: error (class or message), kind (:consume, :tick …), attempt, offset.
      #     assert_failed("orders", error: KeyError)
      # @!method assert_retried(topic, times: nil, **criteria)
      #   A call failed and was repeated, or will be. Criteria: error, attempt, delay, offset.
      #     assert_retried("orders", times: 3)
      # @!method assert_postponed(topic, count: nil, **criteria)
      #   A message went to a retry topic. Criteria: to, due_in, error, attempts, offset.
      #     assert_postponed("orders", to: "orders.retry.60")
      # @!method assert_dead_lettered(topic, count: nil, **criteria)
      #   A message went to the dead letters. Criteria: to, error, attempts, offset.
      #     assert_dead_lettered("orders", error: /total/, attempts: 4)
      # @!method assert_dropped(topic, **criteria)
      #   Messages were kept from the consumer. Criteria: reason (:where, :filtered, :expired), count, offset.
      #     assert_dropped("orders", reason: :where, count: 2)
      # @!method assert_skipped(topic, count: nil, **criteria)
      #   A message was skipped (`then: :skip`). Criteria: error, attempts, offset.
      # @!method assert_stopped(topic, **criteria)
      #   The partition stopped (`then: :stop`). Criteria: error, attempts, offset, partition.
      # @!method assert_marked(topic, up_to:, partition: 0, group: nil)
      #   Everything up to this message or offset is marked as consumed, and nothing behind it.
      #     assert_marked("orders", up_to: message)
      # @!method assert_committed(topic, up_to:, partition: 0, group: nil)
      #   The same, as Kafka has it.
      Checks::NAMES.each do |name|
        # Minitest shows the line that called a method of such a name, and a block has no name.
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def assert_#{name}(topic, **criteria, &block)           # def assert_produced(topic, **criteria, &block)
            check = check_of(:#{name}, topic, **criteria, &block) #   check = check_of(:produced, …)
            assert_found(check, all: criteria.key?(:count) || criteria.key?(:times))
          end

          def refute_#{name}(topic = nil, **criteria, &block)     # def refute_produced(topic = nil, **criteria, &block)
            check = check_of(:#{name}, topic, **criteria, &block) #   check = check_of(:produced, …)
            assert(check.found.empty?, -> { check.refusal })
          end
        RUBY
      end

      def before_setup
        begin_session
        super
      end

      def after_teardown
        left = end_session
        assert_empty(left, "messages that no assertion was about (Pelton::Testing.strict)") if left.any?
      ensure
        super
      end

      private

      def assert_found(check, all:)
        assert(check.met?, -> { check.failure })
        check.found.grep(Pelton::Message).each { |message| asserted(message) }
        all ? check.found : check.found.first
      end
    end
  end
end

Minitest::Test.include(Pelton::Testing::Minitest)
