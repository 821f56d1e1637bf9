# frozen_string_literal: true

require_relative "../errors"
require_relative "types"

module Pelton
  module Settings
    SECONDS = { unit: "s" }.freeze
    private_constant :SECONDS

    # One setting: its name, type, default and documentation.
    class Setting
      attr_reader :name, :type, :default, :unit, :doc, :choices

      # key: its name in error messages, "polling.max_time". choices: values that are allowed besides those of the type.
      def initialize(name, type, default, doc, key: name, unit: nil, choices: nil)
        @name = name
        @key = key
        @type = type
        @choices = choices
        @unit = unit
        @doc = doc
        @default = default.nil? ? nil : check(default)
        freeze
      end

      # Converts the value to the one that is stored. Raises ConfigError, which says what is allowed.
      #: (untyped) -> untyped
      def check(value)
        return value if @choices&.include?(value) || (value.nil? && nilable?)

        allowed, test, convert = TYPES[@type]
        # A value that should have been a Hash of librdkafka's options may contain a password.
        shown = @type == :kafka ? value&.class : value
        raise ConfigError.new(@key, shown, "expected #{allowed_text(allowed)}") unless test&.call(value)

        convert.call(value)
      end

      # For the documentation: "30 s", "1048576 bytes", "unset (s)".
      #: () -> String
      def default_text
        return "unset#{" (#{@unit})" if @unit}" if @default.nil?

        "`#{@default.inspect}`#{" #{@unit}" if @unit}"
      end

      private

      # A setting without a default can be set back to nil.
      def nilable? = @default.nil?

      def allowed_text(allowed) = [*@choices&.map(&:inspect), *allowed].join(" or ")
    end

    # A table of settings, in the order of the documentation.
    class Table
      include Enumerable

      attr_reader :title, :prefix

      # rows: [[name, type, default, text, { unit: … }], …], or {"Consuming" => rows, …} with the sections of the page.
      # prefix: of the names in error messages, "polling.".
      def initialize(title, rows, prefix: "")
        @title = title
        @prefix = prefix
        # {"Consuming" => [Setting, …], …}; nil for a table without sections.
        @sections = (rows.is_a?(Hash) ? rows : { nil => rows }).transform_values { |list| settings(list) }.freeze
        # {concurrency: Setting, …}
        @settings = @sections.values.flatten.to_h { |setting| [setting.name, setting] }.freeze
        freeze
      end

      def each(&block) = @settings.each_value(&block)
      def names = @settings.keys
      def key?(name) = @settings.key?(name)

      # Raises ConfigError ("did you mean …?") for an unknown name.
      #: (Symbol) -> Setting
      def fetch(name) = @settings.fetch(name) { raise unknown(name) }

      # more: other names that would have been right.
      #: (Symbol | String, ?Array[Symbol]) -> ConfigError
      def unknown(name, more = [])
        ConfigError.unknown("#{@prefix}#{name}", [*names, *more].map { |known| "#{@prefix}#{known}" })
      end

      #: () -> Hash[Symbol, untyped]
      def defaults = @settings.transform_values(&:default)

      #: () -> String
      def to_markdown
        sections = @sections.map do |section, settings|
          rows = settings.map { |row| "| `#{row.name}` | #{row.default_text} | #{row.doc} |" }
          [*(["### #{section}", ""] if section), "| Setting | Default | Meaning |", "|---|---|---|", *rows, ""]
        end
        ["## #{@title}", "", *sections].join("\n")
      end

      private

      def settings(rows)
        rows.map do |name, type, default, doc, more|
          Setting.new(name, type, default, doc, key: "#{@prefix}#{name}", **(more || {}))
        end
      end
    end
  end
end
