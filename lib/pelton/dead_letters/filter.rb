# frozen_string_literal: true

require_relative "../decoding/key_text"
require_relative "../errors"

module Pelton
  class DeadLetters
    # Which letters are meant: those that meet all conditions. Checks what the caller says.
    #   Filter.new({ error: "ArgumentError", since: Time.now - 3600 }).match?(letter) # => true
    class Filter
      # Conditions on text: a String, or an Array of which one must be equal.
      TEXTS = {
        id: ->(letter) { [letter.id, letter.place] },
        topic: ->(letter) { letter.origin&.topic },
        group: :group.to_proc,
        error: :error.to_proc
      }.freeze
      TIMES = %i[since until].freeze
      STATUSES = %i[open redriven deleted all].freeze
      KEYS = [*TEXTS.keys, :key, *TIMES, :status].freeze
      PLACE = %r{\A(\d+)/(\d+)\z}
      private_constant :TEXTS, :TIMES, :STATUSES, :PLACE

      #: (Hash[Symbol, untyped]) -> void
      def initialize(filters)
        # nil is no filter; but `delete(id: params[:id])` shall not delete all letters.
        filters = filters.reject { |key, value| value.nil? && key != :id }
        unknown = filters.keys.find { |key| !KEYS.include?(key) }
        raise ConfigError.unknown(unknown, KEYS, what: "filter of dead letters") if unknown

        @texts = TEXTS.keys.filter_map { |key| [key, texts(key, filters[key])] if filters.key?(key) }.to_h
        @keys = texts(:key, filters[:key]).map { |text| KeyText.new(text) } if filters.key?(:key)
        @since, @until = TIMES.map { |key| time(key, filters[key]) }
        @status = status(filters.fetch(:status, :open))
      end

      #: (Letter) -> bool
      def match?(letter)
        (@status == :all || letter.status == @status) && in_time?(letter.time) &&
          @texts.all? { |key, wanted| [*TEXTS.fetch(key).call(letter)].map(&:b).intersect?(wanted) } &&
          (@keys.nil? || @keys.any? { |key| key.match?(letter.message) })
      end

      # {partition => range of offsets} if all letters are named by their places; otherwise nil.
      #: () -> Hash[Integer, Range[Integer]]?
      def places
        places = @texts[:id]&.map { |id| PLACE.match(id)&.captures&.map(&:to_i) }
        return unless places&.all?

        places.group_by(&:first).transform_values { |of| Range.new(*of.map(&:last).minmax) }
      end

      private

      def in_time?(time)
        return @since.nil? && @until.nil? unless time

        (@since.nil? || time >= @since) && (@until.nil? || time < @until)
      end

      def texts(key, given)
        texts = Array(given)
        # Bytes are compared: a key from Kafka may have another encoding.
        return texts.map(&:b) if texts.any? && texts.all? { |text| text.is_a?(String) && !text.empty? }

        raise ConfigError.new(key, given, "expected a String that is not empty, or several")
      end

      def time(key, given)
        return given if given.nil? || given.is_a?(Time)

        raise ConfigError.new(key, given, "expected a Time")
      end

      def status(given)
        return given if STATUSES.include?(given)

        raise ConfigError.new(:status, given, "expected one of #{STATUSES.map(&:inspect).join(", ")}")
      end
    end
  end
end
