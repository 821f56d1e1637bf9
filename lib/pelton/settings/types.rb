# frozen_string_literal: true

require_relative "../decoding/formats"
require_relative "../message"
require_relative "kafka_options"

module Pelton
  module Settings
    SAME = :itself.to_proc
    FINITE = ->(v) { v.is_a?(Numeric) && v.real? && v.to_f.finite? }
    # ActiveSupport's durations only pretend to be a Numeric: 30.seconds → 30
    PLAIN = lambda do |v|
      next v if Numeric === v # rubocop:disable Style/CaseEquality -- is_a? is what they override

      v.to_i == v ? v.to_i : v.to_f
    end
    private_constant :SAME, :FINITE, :PLAIN

    # The types of settings: {type => [what is allowed, for error messages; check; conversion]}
    TYPES = {
      name: ["a String of 1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor ..",
             ->(v) { Settings.utf8(v)&.match?(/\A(?!\.{1,2}\z)[\w.-]{1,249}\z/) }, ->(v) { Settings.utf8(v) }],
      text: ["a String (UTF-8) that is not empty", ->(v) { Settings.utf8(v)&.match?(/./m) },
             ->(v) { Settings.utf8(v) }],
      names: ["an Array of Strings", ->(v) { v.is_a?(Array) && v.all? { |name| name.is_a?(String) && !name.empty? } },
              ->(v) { v.map { |name| Settings.utf8(name) || name }.freeze }],
      flag: ["true or false", ->(v) { [true, false].include?(v) }, SAME],

      count: ["an Integer >= 1", ->(v) { v.is_a?(Integer) && v.positive? }, SAME],
      number: ["an Integer >= 0", ->(v) { v.is_a?(Integer) && v >= 0 }, SAME],
      retries: ["an Integer >= 0, or :unlimited", ->(v) { v == :unlimited || (v.is_a?(Integer) && v >= 0) }, SAME],
      # A number of threads, processes or Ractors.
      pool_size: ["an Integer, 1 to 1000", ->(v) { v.is_a?(Integer) && v.between?(1, 1000) }, SAME],
      priority: ["an Integer, -3 to 3", ->(v) { v.is_a?(Integer) && v.between?(-3, 3) }, SAME],
      port: ["an Integer, 0 to 65535", ->(v) { v.is_a?(Integer) && v.between?(0, 65_535) }, SAME],
      memory: ["bytes, 0 to 2**62: an Integer, or a String such as \"64MB\" (KB, MB, GB)",
               ->(v) { Settings.bytes(v)&.between?(0, 2**62) }, ->(v) { Settings.bytes(v) }],
      memory_budget: ["at least 32 MB: an Integer of bytes, or a String such as \"256MB\" (KB, MB, GB)",
                      ->(v) { Settings.bytes(v)&.between?(32 << 20, 2**62) }, ->(v) { Settings.bytes(v) }],
      partitions: ["an Array or Range of 1 to 10000 Integers, 0 to 2147483647, for example 0..3",
                   lambda { |v|
                     listed = v.is_a?(Array) || (v.is_a?(Range) && [v.begin, v.end].all?(Integer))
                     listed && v.size.between?(1, 10_000) &&
                       v.all? { |number| number.is_a?(Integer) && number.between?(0, (2**31) - 1) }
                   },
                   ->(v) { v.to_a.uniq.freeze }],

      seconds: ["a number of seconds >= 0", ->(v) { FINITE.call(v) && v >= 0 }, PLAIN],
      positive_seconds: ["a number of seconds > 0", ->(v) { FINITE.call(v) && v.positive? }, PLAIN],
      long_seconds: ["a number of seconds >= 30", ->(v) { FINITE.call(v) && v >= 30 }, PLAIN],
      seconds_range: ["a Range of seconds, for example 1..30",
                      lambda { |v|
                        v.is_a?(Range) && [v.begin, v.end].all? { |bound| bound.is_a?(Numeric) } && v.begin >= 0 &&
                          v.begin <= v.end
                      }, ->(v) { Range.new(PLAIN.call(v.begin), PLAIN.call(v.end), v.exclude_end?) }],
      delays: ["an Array of numbers of seconds > 0, each larger than the one before",
               lambda { |v|
                 v.is_a?(Array) && v.any? && v.all? { |delay| FINITE.call(delay) } &&
                   [0, *v].each_cons(2).all? { |delay, longer| delay < longer }
               },
               ->(v) { v.map(&PLAIN).freeze }],
      rate: ["a count > 0 and seconds > 0: `throttle 100, every: 60`",
             lambda { |v|
               TYPES.values_at(:count, :positive_seconds).zip(v).all? { |(_, check), value| check.call(value) }
             }, ->(v) { v.map(&PLAIN).freeze }],

      format: [Formats::ALLOWED, Formats.method(:valid?), Formats.method(:frozen)],
      key_format: ["an object with the method call, or a format: #{Formats::ALLOWED}",
                   ->(v) { v.respond_to?(:call) || Formats.valid?(v) }, Formats.method(:key_maker)],
      condition: ["a condition of Pelton::Routing::Condition", ->(v) { v.is_a?(Array) }, SAME],
      creation: ["partitions:, replication: and config:", ->(v) { v.is_a?(Hash) }, SAME],
      filters: ["an object with `call(message)`, a class of such objects, or a block",
                lambda { |v|
                  v.all? { |item| item.respond_to?(:call) || (item.is_a?(Class) && item.method_defined?(:call)) }
                },
                ->(v) { v.dup.freeze }],
      key_selector: [":key, the name of another method of Message, or an object with the method call",
                     lambda { |v|
                       v.respond_to?(:call) || (v.is_a?(Symbol) && (v == :key || Settings.reader?(v)))
                     }, SAME],
      callable: ["an object with the method call", ->(v) { v.respond_to?(:call) }, SAME],

      kafka: ["a Hash of librdkafka's option names to String, Symbol, Numeric, true or false",
              ->(v) { v.respond_to?(:to_hash) }, ->(v) { KafkaOptions.of(v) }],
      logger: ["an object with the methods debug, info, warn and error (::Logger), or nil for no log",
               ->(v) { %i[debug info warn error].all? { |name| v.respond_to?(name) } }, SAME],
      # Recognized by its methods, because Pelton::Tracing is loaded by name.
      tracer: ["a Pelton::Tracing", ->(v) { %i[call wait process trace_id].all? { |name| v.respond_to?(name) } }, SAME],
      # Recognized by its methods, because Pelton::Poller is on a higher floor.
      poller: ["a Pelton::Poller", ->(v) { v.respond_to?(:polling) && v.respond_to?(:next_events) }, SAME]
    }.freeze

    # Converts a name to UTF-8, as Kafka stores and returns it; returns nil if it is not text. Bytes without an encoding
    # count as UTF-8.
    #: (untyped) -> String?
    def self.utf8(value)
      return unless value.is_a?(String)

      bytes = [Encoding::BINARY, Encoding::US_ASCII].include?(value.encoding)
      text = bytes ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8)
      text.freeze if text.valid_encoding?
    rescue EncodingError
      nil
    end

    # "64MB" → 67108864; nil if it is no size. Units are powers of 1024.
    #: (untyped) -> Integer?
    def self.bytes(value)
      return value if value.is_a?(Integer)

      number, unit = value.match(/\A(\d{1,18}) ?([KMG])B\z/)&.captures if value.is_a?(String)
      number && (Integer(number, 10) << { "K" => 10, "M" => 20, "G" => 30 }.fetch(unit))
    end

    # Does a message have this method, without arguments?
    #: (Symbol) -> bool
    def self.reader?(name)
      [Message, Message::Facts].any? { |owner| owner.public_method_defined?(name, false) } &&
        Message.instance_method(name).arity.zero?
    end
  end
end
