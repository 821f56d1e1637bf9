# frozen_string_literal: true

require_relative "../errors"

module Pelton
  module Testing
    # What a test expects of a message, or of another thing that happened: {key: "7", payload: {…}}. A value is compared
    # by == and ===, also inside of Hashes and Arrays, so classes, patterns, ranges and matchers fit in. Headers need
    # only contain the given ones. An error is compared by its class or its message.
    class Criteria
      # How a wanted value is shown; a framework's own way knows its matchers.
      @show = :inspect.to_proc

      class << self
        attr_accessor :show
      end

      # known: names of all criteria that there are. Raises ConfigError for another one.
      #: (Hash[Symbol, untyped], Array[Symbol]) ?{ (untyped) -> boolish } -> void
      def initialize(wanted, known, &block)
        wanted.each_key { |name| raise ConfigError.unknown(name, known, what: "criterion") unless known.include?(name) }
        @wanted = wanted
        @block = block
      end

      # How many of them a candidate does not meet.
      #: (Candidate) -> Integer
      def unmet(candidate)
        wrong = @wanted.count { |name, value| !met?(name, value, candidate.value(name)) }
        return wrong if @block.nil? || wrong.positive?

        @block.call(candidate.object) ? 0 : 1
      end

      #: () -> Array[Symbol]
      def names = @wanted.keys

      # ' with key "7", payload {"id" => 7}'
      #: () -> String
      def to_s
        list = @wanted.map { |name, value| "#{name} #{Criteria.show.call(value)}" }
        list << "for which the block returns true" if @block
        list.empty? ? "" : " with #{list.join(", ")}"
      end

      private

      def met?(name, wanted, actual)
        case name
        when :headers then contains?(wanted, actual)
        when :error then same?(wanted, actual) || (!wanted.is_a?(Module) && same?(wanted, text(actual)))
        else same?(wanted, actual)
        end
      end

      def text(error) = error.is_a?(Exception) ? error.message : error

      def contains?(wanted, actual)
        return same?(wanted, actual) unless wanted.is_a?(Hash)

        wanted.all? { |name, value| actual.key?(name) && same?(value, actual[name]) }
      end

      def same?(wanted, actual)
        return true if wanted == actual || wanted === actual # rubocop:disable Style/CaseEquality -- classes, matchers
        return false unless wanted.respond_to?(:size) && actual.instance_of?(wanted.class) && wanted.size == actual.size

        case wanted
        when Hash then contains?(wanted, actual)
        when Array then wanted.zip(actual).all? { |pair| same?(*pair) }
        end
      end
    end

    # A thing that happened, with its facts.
    class Candidate
      # Facts that are shown.
      SHOWN = %i[partition offset key payload headers kind attempt attempts to reason count delay due_in error].freeze
      # Facts of a message.
      MESSAGE = %i[topic partition offset timestamp key payload headers].freeze
      private_constant :SHOWN

      # The message, or the Hash of facts.
      #: () -> (Message | Hash[Symbol, untyped])
      attr_reader :object

      #: (Message | Hash[Symbol, untyped]) -> void
      def initialize(object)
        @object = object
        @facts = object.is_a?(Hash) ? object : facts_of(object)
      end

      #: () -> String
      def topic = value(:topic)

      # A fact; the payload is decoded only now.
      #: (Symbol) -> untyped
      def value(name)
        found = @facts[name]
        found.is_a?(Method) ? found.call : found
      rescue DecodeError => e
        e
      end

      # names: facts that are shown in any case.
      #: (Array[Symbol]) -> String
      def show(names)
        facts = ((SHOWN & @facts.keys) | names).to_h { |name| [name, value(name)] }
        facts.reject! { |name, found| !names.include?(name) && (found.nil? || found == {}) }
        "#{topic} #{facts.map { |name, found| "#{name} #{found.inspect}" }.join(", ")}"
      end

      private

      def facts_of(message)
        MESSAGE.to_h { |name| [name, message.method(name)] }
      end
    end
  end
end
