# frozen_string_literal: true

require_relative "criteria"

module Pelton
  module Testing
    # Looks for things that happened in a topic, and says what is nearest to what was expected.
    #   check = Check.new("was produced", "shipped", messages, { key: "7" })
    #   check.found   # => []
    #   check.failure # => "expected a message of shipped that was produced with key \"7\", but …"
    class Check
      # Most candidates that are shown.
      MOST = 5
      COUNTS = %i[count times].freeze
      private_constant :MOST, :COUNTS

      # Those that meet the criteria.
      #: () -> Array[Message | Hash[Symbol, untyped]]
      attr_reader :found

      # what: "was produced". objects: all candidates. wanted: the criteria, with `count` or `times` (an Integer or a
      # Range) how many must meet them. known: names of criteria. main: {"orders.retry.60" => "orders"}, topics that
      # count as another one. errors: of consumers, which may be the reason. The block is one more criterion.
      #: (String, String?, Array[untyped], Hash[Symbol, untyped], ?known: Array[Symbol], ?main: Hash[String, String],
      #:  ?errors: Array[Exception]) ?{ (untyped) -> boolish } -> void
      def initialize(what, topic, objects, wanted, known: wanted.keys, main: {}, errors: [], &block)
        @what = "#{" of #{topic}" if topic} that #{what}"
        @count = wanted.values_at(*COUNTS).compact.first
        @criteria = Criteria.new(wanted.except(*COUNTS), known - COUNTS, &block)
        @candidates = objects.map { |object| Candidate.new(object) }
        @candidates.select! { |candidate| [nil, candidate.topic, main[candidate.topic]].include?(topic) }
        @unmet = @candidates.to_h { |candidate| [candidate, @criteria.unmet(candidate)] }.compare_by_identity
        @found = @candidates.select { |candidate| @unmet[candidate].zero? }.map(&:object)
        @errors = errors
        @elsewhere = objects.map { |object| Candidate.new(object).topic }.uniq - [topic]
      end

      #: () -> bool
      def met? = @count ? @count === amount : @found.any? # rubocop:disable Style/CaseEquality -- also a Range

      # Why it is not met.
      #: () -> String
      def failure
        expected = @count ? "#{@count} messages" : "a message"
        ["expected #{expected}#{@what}#{@criteria}, but found #{amount}", *nearest, *raised].join("\n")
      end

      # Why it should not be met.
      #: () -> String
      def refusal = ["expected no message#{@what}#{@criteria}, but found #{amount}", *nearest].join("\n")

      private

      # One event may be about several messages that were dropped.
      def amount = @found.sum { |object| object.is_a?(Hash) && object[:count] ? object[:count] : 1 }

      def nearest
        return ["there is none#{@what}#{", only of #{@elsewhere.join(", ")}" if @elsewhere.any?}"] if @candidates.empty?

        shown = @candidates.sort_by.with_index { |candidate, index| [@unmet[candidate], index] }.first(MOST)
        shown.each_with_index.map do |candidate, index|
          "#{index.zero? ? "nearest" : "also"}: #{candidate.show(@criteria.names)}"
        end
      end

      def raised
        @errors.last(3).map do |error|
          line = error.backtrace&.find { |frame| !frame.include?("/lib/pelton/") }.to_s[%r{[^/]+:\d+}]
          "a consumer raised #{error.class}: #{error.message}#{" at #{line}" if line}"
        end
      end
    end
  end
end
