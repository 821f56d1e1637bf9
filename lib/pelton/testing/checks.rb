# frozen_string_literal: true

require_relative "check"

module Pelton
  module Testing
    # The checks behind the assertions of Minitest and the matchers of RSpec: each returns a Check.
    module Checks
      # {check => the event that it looks for}
      EVENTS = { retried: "consumer.retrying", postponed: "message.postponed", dead_lettered: "message.dead_lettered",
                 dropped: "message.dropped", skipped: "message.skipped", stopped: "partition.stopped" }.freeze
      SENTENCES = { produced: "was produced", consumed: "was consumed", retried: "was retried",
                    postponed: "went to a retry topic", dead_lettered: "went to the dead letters",
                    dropped: "was dropped", skipped: "was skipped", stopped: "stopped its partition" }.freeze
      NAMES = %i[failed marked committed].concat(SENTENCES.keys).freeze
      FAILED = %i[group topic partition kind attempt error offset].freeze
      private_constant :EVENTS, :SENTENCES, :FAILED

      # For Pelton: a check by its name.
      #: (Symbol, String?, **untyped) ?{ (untyped) -> boolish } -> Check
      def check_of(name, topic, **criteria, &block)
        case name
        when :marked, :committed then offset_check(topic, **criteria)
        when :failed then Check.new("failed", topic, failed_calls, criteria, known: FAILED, main: mains, &block)
        when :produced, :consumed
          Check.new(SENTENCES.fetch(name), topic, candidates(name), criteria, known: Candidate::MESSAGE,
                                                                              errors: consumer_errors, &block)
        else
          Check.new(SENTENCES.fetch(name), topic, events_of(EVENTS.fetch(name)), criteria,
                    known: Events.fetch(EVENTS.fetch(name)).keys, main: mains, errors: consumer_errors, &block)
        end
      end

      private

      def candidates(name) = name == :produced ? kafka.topics.produced : consumed_messages
      def events_of(name) = kafka.histories.flat_map { |history| history.events_of(name) }.map(&:payload)

      # What happens in a retry topic counts for the topic that it belongs to.
      def mains
        routes = kafka.topics.groups.flat_map { |group| group.topics.values }
        routes.select(&:stage).to_h { |route| [route.name, route.stage.main] }
      end

      def failed_calls
        kafka.histories.flat_map(&:calls).select(&:error).map(&:to_h)
      end

      # Marked offsets are committed as soon as nothing is due.
      def offset_check(topic, up_to:, partition: nil, group: nil)
        partition ||= up_to.respond_to?(:partition) ? up_to.partition : 0
        offset = up_to.respond_to?(:offset) ? up_to.offset : up_to
        committed = committed_offset(topic, partition, group: group)
        found = { topic: topic, partition: partition, up_to: committed && (committed - 1) }
        Check.new("was marked", topic, [found], { partition: partition, up_to: offset }, errors: consumer_errors)
      end
    end
  end
end
