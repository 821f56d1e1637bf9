# frozen_string_literal: true

require "rspec/core"
require "rspec/expectations"
require_relative "helpers"
require_relative "session"

module Pelton
  module Testing
    # Testing consumers and producers with RSpec: `require "pelton/testing/rspec"` gives each example the methods of
    # Helpers and these matchers. Each example has topics, offsets and a clock of its own, and a copy of Pelton.app.
    #   it "ships the order" do
    #     produce("orders", { "id" => 7 })
    #     expect("shipped").to have_produced(payload: { "id" => 7 })
    #   end
    # The subject is a topic. The criteria are those of the assertions of Testing::Minitest, and may be matchers.
    #   expect("shipped").to have_produced(payload: a_hash_including("id" => 7), count: 1)
    #   expect("orders").to have_consumed(count: 3)
    #   expect("orders").to have_failed(error: KeyError)
    #   expect("orders").to have_retried(times: 3)
    #   expect("orders").to have_postponed(to: "orders.retry.60")
    #   expect("orders").to have_dead_lettered(error: /total/, attempts: 4)
    #   expect("orders").to have_dropped(reason: :where, count: 2)
    #   expect("orders").to have_skipped(error: KeyError)
    #   expect("orders").to have_stopped(error: KeyError)
    #   expect("orders").to have_marked(up_to: message)
    #   expect("orders").to have_committed(up_to: message)
    module RSpec
      include Helpers

      # One of the matchers.
      class HaveHappened
        #: (Symbol, untyped, Hash[Symbol, untyped], Proc?) -> void
        def initialize(name, example, criteria, block)
          @name = name
          @example = example
          @criteria = criteria
          @block = block
        end

        # The block of do and end goes to `to`, which passes it on.
        #: (String) ?{ (untyped) -> boolish } -> bool
        def matches?(topic, &block)
          @block ||= block
          check(topic)
          @check.found.grep(Pelton::Message).each { |message| @example.send(:asserted, message) }
          @check.met?
        end

        #: (String) ?{ (untyped) -> boolish } -> bool
        def does_not_match?(topic, &block)
          @block ||= block
          check(topic)
          @check.found.empty?
        end

        def failure_message = @check.failure
        def failure_message_when_negated = @check.refusal

        def description
          "have #{@name} #{@criteria.map { |name, value| "#{name} #{Criteria.show.call(value)}" }.join(", ")}".strip
        end

        private

        def check(topic) = @check = @example.check_of(@name, topic, **@criteria, &@block)
      end
      private_constant :HaveHappened

      Criteria.show = ->(value) { ::RSpec::Support::ObjectFormatter.prepare_for_inspection(value).inspect }

      Checks::NAMES.each do |name|
        define_method(:"have_#{name}") { |**criteria, &block| HaveHappened.new(name, self, criteria, block) }
      end
    end
  end
end

RSpec.configure do |config|
  config.include(Pelton::Testing::RSpec)
  config.prepend_before { begin_session }
  config.append_after do
    left = end_session
    expect(left).to be_empty, "messages that no expectation was about (Pelton::Testing.strict): #{left.inspect}"
  end
end
