# frozen_string_literal: true

require "json"
require_relative "../../avro"
require_relative "../../errors"
require_relative "avro_values"
require_relative "avro_bytes"
require_relative "json_input"
require_relative "plain"

module Pelton
  class CLI
    # Makes messages of lines, for `pelton produce`.
    #   LineFormat.new("orders", key_separator: ":").message("7:{}") # => { topic: "orders", key: "7", payload: "{}" }
    class LineFormat
      NAMES = %w[string json avro hex].freeze
      NO_REGISTRY = "needs --registry URL, or -r with a file whose route has decode :avro and a registry"
      NO_KEYS = "needs --registry URL, or -r with a file whose route has key_deserializer :avro"
      private_constant :NO_REGISTRY, :NO_KEYS

      # options: those of the command: json_lines, key, key_separator, headers, partition, null_value, format, registry,
      # subject, key_subject. decoder: that of the topic's route, whose registry is used without `registry`; nil: none.
      # key_decoder: the same for keys. Raises ConfigError for options that cannot be combined.
      #: (String, ?decoder: Avro::Decoder?, ?key_decoder: Avro::Decoder?, **untyped) -> void
      def initialize(topic, decoder: nil, key_decoder: nil, **options)
        @topic = topic
        @decoder = options[:registry] ? Avro::Decoder.new(registry: options[:registry]) : decoder
        @options = options
        @format = options[:format] || ("avro" if options[:registry])
        check
        @values = AvroBytes.new(@decoder, options[:subject] || "#{topic}-value") if @format == "avro"
        @keys = keys(key_decoder)
      end

      # The keywords of Producer#produce_async. Raises ConfigError, EncodeError and RegistryError.
      #: (String) -> Hash[Symbol, untyped]
      def message(line)
        found = @options[:json_lines] ? of_json(line) : of_text(line)
        found[:key] ||= key(@options[:key]) if @options[:key]
        choose_partition(found, @options[:partition])
        found[:headers] = { **@options[:headers], **found[:headers].to_h } if @options[:headers]&.any?
        { topic: @topic, **found }
      end

      private

      def choose_partition(message, partition)
        message.delete(:partition) if partition
        message[:partition] = partition if partition.is_a?(Integer)
      end

      def check
        check_avro(@format == "avro")
        return unless @options[:json_lines]

        refuse("--json-lines", "cannot be combined with --key-separator") if @options[:key_separator]
        refuse("--json-lines", "cannot be combined with --null-value: use null") if @options[:null_value]
        refuse("--json-lines", "works with --format avro only: each line says what its payload is") if
          @format && @format != "avro"
      end

      def check_avro(used)
        refuse("--registry", "works only with --format avro") if @options[:registry] && !used
        refuse("--subject", "works only with --format avro") if @options[:subject] && !used
        refuse("--format avro", NO_REGISTRY) if used && !@decoder&.asks?
      end

      def refuse(option, reason) = raise(ConfigError.new(option, nil, reason))

      # What writes keys; nil: they are sent as they are.
      def keys(decoder)
        subject = @options[:key_subject]
        decoder = @decoder if subject && (@options[:registry] || decoder.nil?)
        refuse("--key-subject", NO_KEYS) if subject && !decoder&.asks?
        AvroBytes.new(decoder, subject || "#{@topic}-key") if decoder
      end

      def key(text)
        @keys ? @keys.of_text(Plain.utf8(text) || text) : text
      rescue EncodeError => e
        raise ConfigError.new("key", nil, e.message)
      end

      def of_json(line)
        return JsonInput.new(line).message unless @values || @keys

        input = JsonInput.new(line, decimal_class: AvroValues::Number)
        found = input.message
        found[:payload] = input.value.nil? ? nil : @values.of(input.value) if @values
        found[:key] = json_key(input.key) if @keys && input.key
        found
      end

      def json_key(value)
        @keys.of(value)
      rescue EncodeError => e
        raise ConfigError.new("key", nil, e.message)
      end

      def of_text(line)
        key, line = split(line) if @options[:key_separator]
        payload = line == @options[:null_value]&.b ? nil : payload(line)
        { payload: payload, key: key && key(key) }.compact.then { |found| { payload: nil, **found } }
      end

      def split(line)
        key, rest = line.split(@options[:key_separator].b, 2)
        return [key, rest] if rest

        raise ConfigError.new("--key-separator", @options[:key_separator], "is not in the line")
      end

      def payload(line)
        case @format
        when "json" then json(line) && line
        when "avro" then @values.of(json(line).first)
        when "hex" then line.match?(/\A(\h\h)*\z/) ? [line].pack("H*") : refuse("the line", "is not hexadecimal")
        else line
        end
      end

      # The value in an Array, because it may be nil or false.
      def json(line)
        text = Plain.utf8(line) || refuse("the line", "is not valid UTF-8")
        [JSON.parse(text, decimal_class: (AvroValues::Number if @values))]
      rescue JSON::JSONError
        refuse("the line", "is not valid JSON")
      end
    end
  end
end
