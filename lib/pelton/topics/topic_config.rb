# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Topics
    # The configs that Kafka has for a topic. Checks values, turns them into the Strings that Kafka stores, and compares
    # them. A broker may be newer than this table: it then decides about a name that is not here.
    module TopicConfig
      INT = (2**31) - 1
      LONG = (2**63) - 1
      CODECS = %w[uncompressed zstd lz4 snappy gzip producer].freeze
      FLAG = %w[true false].freeze
      # {name => the smallest and largest Integer, a Range of Floats, the allowed words, or :list}
      KNOWN = {
        "cleanup.policy" => :list,
        "compression.type" => CODECS,
        "compression.gzip.level" => -1..9,
        "compression.lz4.level" => 1..17,
        "compression.zstd.level" => -131_072..22,
        "delete.retention.ms" => 0..LONG,
        "file.delete.delay.ms" => 0..LONG,
        "flush.messages" => 1..LONG,
        "flush.ms" => 0..LONG,
        "follower.replication.throttled.replicas" => :list,
        "index.interval.bytes" => 0..INT,
        "leader.replication.throttled.replicas" => :list,
        "local.retention.bytes" => -2..LONG,
        "local.retention.ms" => -2..LONG,
        "max.compaction.lag.ms" => 1..LONG,
        "max.message.bytes" => 0..INT,
        "message.timestamp.after.max.ms" => 0..LONG,
        "message.timestamp.before.max.ms" => 0..LONG,
        "message.timestamp.type" => %w[CreateTime LogAppendTime],
        "min.cleanable.dirty.ratio" => 0.0..1.0,
        "min.compaction.lag.ms" => 0..LONG,
        "min.insync.replicas" => 1..INT,
        "preallocate" => FLAG,
        "remote.log.copy.disable" => FLAG,
        "remote.log.delete.on.disable" => FLAG,
        "remote.storage.enable" => FLAG,
        "retention.bytes" => -1..LONG,
        "retention.ms" => -1..LONG,
        "segment.bytes" => 14..INT,
        "segment.index.bytes" => 4..INT,
        "segment.jitter.ms" => 0..LONG,
        "segment.ms" => 1..LONG,
        "unclean.leader.election.enable" => FLAG
      }.freeze
      POLICIES = %w[compact delete].freeze
      private_constant :INT, :LONG, :CODECS, :FLAG, :POLICIES

      module_function

      # {"retention.ms" => 7.days} → {"retention.ms" => "604800000"}; nil stays, it stands for the broker's default.
      # scope: for errors, "topic orders". Raises ConfigError.
      #: (untyped, String) -> Hash[String, String?]
      def check(given, scope)
        raise ConfigError.new("#{scope}: config", given, EXPECTED) unless given.is_a?(Hash)

        given.to_h do |name, value|
          text = name.to_s
          raise ConfigError.new("#{scope}: config", name, EXPECTED) unless name.is_a?(String) || name.is_a?(Symbol)

          check_name(text, scope)
          [text, value.nil? ? nil : converted(text, value, "#{scope}: #{text}")]
        end.freeze
      end

      # Do both values mean the same to Kafka? "delete,compact" and "compact, delete" do.
      #: (String, String?, String?) -> bool
      def same?(name, value, other)
        value == other || (!value.nil? && !other.nil? && comparable(name, value) == comparable(name, other))
      end

      # "did you mean …?" for a name that is written almost like a known one; nil for other names.
      #: (String) -> String?
      def similar(name)
        letters = name.downcase.delete("^a-z0-9")
        near = KNOWN.each_key.find { |known| known.delete(".") == letters }
        return near if near || !defined?(::DidYouMean)

        KNOWN.each_key.find { |known| ::DidYouMean::Levenshtein.distance(known, name) < 3 }
      end

      EXPECTED = "expected Kafka's names of topic configs: { \"retention.ms\" => 604_800_000 }"
      private_constant :EXPECTED

      # A name that is neither known nor almost known is left to the broker, which may be newer.
      def check_name(name, scope)
        return if KNOWN.key?(name)

        near = similar(name)
        raise ConfigError.new("#{scope}: config", name, "Kafka has no such topic config, did you mean #{near}?") if near
      end

      def converted(name, value, key)
        value = milliseconds(name, value, key) if value.respond_to?(:in_seconds)
        rule = KNOWN[name]
        case rule
        when Range then number(rule, value, key, name)
        when Array then word(rule, value, key)
        when :list then list(name, value, key)
        else plain(value, key)
        end
      end

      # 7.days of ActiveSupport, which has `in_seconds`. An Integer is in milliseconds, as Kafka counts.
      def milliseconds(name, value, key)
        return (value.to_f * 1000).round if name.end_with?(".ms")

        raise ConfigError.new(key, value.inspect, "is a duration, but only configs that end with .ms have one")
      end

      def number(allowed, value, key, name)
        whole = allowed.begin.is_a?(Integer)
        found = whole ? integer(value) : Float(value, exception: false)
        return found.to_s if found && allowed.cover?(found)

        unit = " (milliseconds), or a duration such as 7.days" if name.end_with?(".ms")
        kind = whole ? "an Integer" : "a number"
        raise ConfigError.new(key, value, "expected #{kind}, #{allowed.begin} to #{allowed.end}#{unit}")
      rescue TypeError
        raise ConfigError.new(key, value, "expected a number")
      end

      # 1e9 is a whole number, too.
      def integer(value)
        case value
        when Integer then value
        when Float, Rational then value.to_i if value.to_f.finite? && value == value.to_i
        when String then Integer(value, 10, exception: false)
        end
      end

      def word(allowed, value, key)
        text = plain(value, key)
        allowed.include?(text) ? text : raise(ConfigError.new(key, value, "expected #{allowed.join(", ")}"))
      end

      def list(name, value, key)
        items = (value.is_a?(Array) ? value : [value]).flat_map { |item| plain(item, key).split(",").map(&:strip) }
        wrong = (items - POLICIES).first if name == "cleanup.policy"
        raise ConfigError.new(key, value, "expected delete, compact, or both: \"compact,delete\"") if wrong

        items.join(",")
      end

      def plain(value, key)
        case value
        when String, Symbol, Integer, Float, true, false then value.to_s
        else raise ConfigError.new(key, value, "expected a String, Symbol, number, true or false")
        end
      end

      def comparable(name, text)
        case KNOWN[name]
        when Range then Integer(text, 10, exception: false) || Float(text, exception: false) || text
        when :list then text.split(",").map(&:strip).sort
        else text.strip
        end
      end
      private_class_method :check_name, :converted, :milliseconds, :number, :integer, :word, :list, :plain, :comparable
    end
    private_constant :TopicConfig
  end
end
