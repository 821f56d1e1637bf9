# frozen_string_literal: true

require_relative "../errors"
require_relative "../decoding/formats"
require_relative "../message"

module Pelton
  # The tables of settings. Validation, defaults, "did you mean" and docs/reference/configuration.md come from them.
  module Settings
    # type => [what is allowed, check, conversion]
    TYPES = {
      name: ["a String of 1 to 249 of a-z A-Z 0-9 . _ -",
             ->(v) { Settings.utf8(v)&.match?(/\A[\w.-]{1,249}\z/) }, ->(v) { Settings.utf8(v) }],
      text: ["a String (UTF-8) that is not empty", ->(v) { Settings.utf8(v)&.match?(/./m) },
             ->(v) { Settings.utf8(v) }],
      count: ["an Integer >= 1", ->(v) { v.is_a?(Integer) && v.positive? }, ->(v) { v }],
      # Numbers of threads, processes or Ractors.
      several: ["an Integer, 1 to 1000", ->(v) { v.is_a?(Integer) && v.between?(1, 1000) }, ->(v) { v }],
      number: ["an Integer >= 0", ->(v) { v.is_a?(Integer) && v >= 0 }, ->(v) { v }],
      priority: ["an Integer, -3 to 3", ->(v) { v.is_a?(Integer) && v.between?(-3, 3) }, ->(v) { v }],
      port: ["an Integer, 0 to 65535", ->(v) { v.is_a?(Integer) && v.between?(0, 65_535) }, ->(v) { v }],
      memory: ["an Integer of bytes, 0 to 2**62", ->(v) { v.is_a?(Integer) && v.between?(0, 2**62) }, ->(v) { v }],
      seconds: ["a number of seconds >= 0",
                ->(v) { v.is_a?(Numeric) && v.real? && v >= 0 && v.to_f.finite? }, ->(v) { v }],
      time: ["a number of seconds > 0",
             ->(v) { v.is_a?(Numeric) && v.real? && v.positive? && v.to_f.finite? }, ->(v) { v }],
      long: ["a number of seconds >= 30",
             ->(v) { v.is_a?(Numeric) && v.real? && v >= 30 && v.to_f.finite? }, ->(v) { v }],
      span: ["a Range of seconds, as 1..30",
             ->(v) { v.is_a?(Range) && [v.begin, v.end].all?(Numeric) && v.begin >= 0 && v.begin <= v.end },
             ->(v) { v }],
      names: ["an Array of Strings", ->(v) { v.is_a?(Array) && v.all? { |one| one.is_a?(String) && !one.empty? } },
              ->(v) { v.map { |one| Settings.utf8(one) || one }.freeze }],
      delays: ["an Array of numbers of seconds > 0, each larger than the one before",
               lambda { |v|
                 v.is_a?(Array) && v.any? && v.all? { |one| one.is_a?(Numeric) && one.real? && one.to_f.finite? } &&
                   [0, *v].each_cons(2).all? { |one, next_one| one < next_one }
               },
               ->(v) { v.dup.freeze }],
      partitions: ["an Array or Range of 1 to 10000 Integers, 0 to 2147483647, as 0..3",
                   lambda { |v|
                     listed = v.is_a?(Array) || (v.is_a?(Range) && [v.begin, v.end].all?(Integer))
                     listed && v.size.between?(1, 10_000) &&
                       v.all? { |one| one.is_a?(Integer) && one.between?(0, (2**31) - 1) }
                   },
                   ->(v) { v.to_a.uniq.freeze }],
      flag: ["true or false", ->(v) { [true, false].include?(v) }, ->(v) { v }],
      rate: ["a count > 0 and seconds > 0, as `throttle 100, every: 60`",
             ->(v) { TYPES.values_at(:count, :time).zip(v).all? { |(_, test), part| test.call(part) } }, ->(v) { v }],
      format: [Formats::ALLOWED, Formats.method(:valid?), Formats.method(:frozen)],
      condition: ["a condition of Pelton::Routing::Condition", ->(v) { v.is_a?(Array) }, ->(v) { v }],
      filters: ["an object with `call(message)`, a class of such, or a block",
                ->(v) { v.all? { |one| one.respond_to?(:call) || (one.is_a?(Class) && one.method_defined?(:call)) } },
                ->(v) { v.dup.freeze }],
      reader: [":key, another reader of Message, or an object with the method call",
               ->(v) { v.respond_to?(:call) || (v.is_a?(Symbol) && (v == :key || Settings.reader?(v))) }, ->(v) { v }],
      key_maker: ["an object with the method call, or a format: #{Formats::ALLOWED}",
                  ->(v) { v.respond_to?(:call) || Formats.valid?(v) }, Formats.method(:key_maker)],
      callable: ["an object with the method call", ->(v) { v.respond_to?(:call) }, ->(v) { v }],
      kafka: ["a Hash of librdkafka's option names to String, Symbol, Numeric, true or false",
              ->(v) { v.respond_to?(:to_hash) }, ->(v) { KafkaOptions.of(v) }],
      logger: ["an object with the methods debug, info, warn and error (::Logger), or nil for no log",
               ->(v) { %i[debug info warn error].all? { |name| v.respond_to?(name) } }, ->(v) { v }],
      # Not `is_a?`, because Poller is on a higher floor.
      poller: ["a Pelton::Poller", ->(v) { v.respond_to?(:polling) && v.respond_to?(:next_events) }, ->(v) { v }]
    }.freeze

    # Options for librdkafka: names as given, values as Strings. Frozen. `inspect` hides secrets, also in a FrozenError,
    # which shows its receiver.
    class KafkaOptions < Hash
      # {option => [values that Pelton does not allow, why]}
      REFUSED = {
        "enable.auto.commit" =>
          [/\A(false|f|0)\z/i, "librdkafka's auto commit commits what is marked, so without it nothing would be " \
                               "committed: to choose the time, use manual_offsets and mark_as_consumed!"],
        "enable.sasl.oauthbearer.unsecure.jwt" =>
          [/\A(true|t|1)\z/i, "librdkafka would not renew such a token here: return one from config.oauth"],
        "enable.auto.offset.store" =>
          [/\A(true|t|1)\z/i, "messages would count as done before they are processed: Pelton stores offsets when " \
                              "consume returns, or with manual_offsets by mark_as_consumed"],
        "delivery.report.only.error" =>
          [/\A(true|t|1)\z/i, "a delivery would not learn that its message is in Kafka, so each wait and each flush " \
                              "would take its whole timeout"]
      }.freeze
      private_constant :REFUSED

      #: (Hash[String | Symbol, untyped]) -> KafkaOptions
      def self.of(options)
        result = new
        options.to_hash.each do |key, value|
          case value
          when String, Symbol, Numeric, true, false then result[key.to_s.dup.freeze] = value.to_s.dup.freeze
          else
            unset = "is nil (an environment variable that is not set?), " if value.nil?
            raise ConfigError.new(key, value&.class, "#{unset}expected a String, Symbol, Numeric, true or false")
          end
        end
        REFUSED.each { |key, (values, why)| raise ConfigError.new(key, result[key], why) if values.match?(result[key]) }
        result.freeze
      end

      def inspect = Secrets.mask(self).inspect
      alias to_s inspect
      def pretty_print(printer) = printer.pp(Secrets.mask(self))
    end

    # One setting of a table.
    class Setting
      attr_reader :name, :type, :default, :unit, :doc, :choices

      # key: its name in errors, "polling.max_time"
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

      # Returns the value that the setting stores for this one. Raises ConfigError, which says what is allowed.
      #: (untyped) -> untyped
      def check(value)
        return value if @choices&.include?(value) || (value.nil? && nilable?)

        allowed, test, convert = TYPES[@type]
        # A wrong value of `kafka` may have a password anywhere, so only its class is shown.
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

      # A setting without a default may be unset again.
      def nilable? = @default.nil?

      def allowed_text(allowed) = [*@choices&.map(&:inspect), *allowed].join(" or ")
    end

    # Settings by name, in the order of the documentation.
    class Table
      include Enumerable

      attr_reader :title, :prefix

      # rows: [[name, type, default, text, { unit: … }], …], or {"Consuming" => rows, …}: by section of the page.
      # prefix: for names in errors, "polling."
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

      # Raises ConfigError ("did you mean …?") for a name that does not exist.
      #: (Symbol) -> Setting
      def fetch(name) = @settings.fetch(name) { raise unknown(name) }

      #: (Symbol | String) -> ConfigError
      def unknown(name) = ConfigError.unknown("#{@prefix}#{name}", names.map { |known| "#{@prefix}#{known}" })

      #: () -> Hash[Symbol, untyped]
      def defaults = @settings.transform_values(&:default)

      #: () -> String
      def to_markdown
        parts = @sections.map do |section, settings|
          rows = settings.map { |one| "| `#{one.name}` | #{one.default_text} | #{one.doc} |" }
          [*(["### #{section}", ""] if section), "| Setting | Default | Meaning |", "|---|---|---|", *rows, ""]
        end
        ["## #{@title}", "", *parts].join("\n")
      end

      private

      def settings(rows)
        rows.map do |name, type, default, doc, more|
          Setting.new(name, type, default, doc, key: "#{@prefix}#{name}", **(more || {}))
        end
      end
    end

    # A name in UTF-8, as Kafka returns it; nil: it is not text. Bytes without an encoding count as UTF-8.
    #: (untyped) -> String?
    def self.utf8(value)
      return unless value.is_a?(String)

      bytes = [Encoding::BINARY, Encoding::US_ASCII].include?(value.encoding)
      text = bytes ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8)
      text.freeze if text.valid_encoding?
    rescue EncodingError
      nil
    end

    # true: Message has this method, without arguments.
    #: (Symbol) -> bool
    def self.reader?(name)
      [Message, Message::Facts].any? { |own| own.public_method_defined?(name, false) } &&
        Message.instance_method(name).arity.zero?
    end
  end
end

require_relative "tables"
