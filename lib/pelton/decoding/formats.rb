# frozen_string_literal: true

require_relative "key_format"

module Pelton
  autoload :Avro, File.expand_path("../avro", __dir__)

  # The formats of payloads, as `decode` takes them: a name, a Hash with `format` and that format's options, or an
  # Avro::Decoder. The native side (ext/core/src/format.rs) decodes them.
  module Formats
    FLAG = ->(value) { [true, false].include?(value) }
    # {1 => ->(bytes) { … }}
    EXTENSIONS = lambda do |value|
      value.is_a?(Hash) && value.all? do |type, decoder|
        type.is_a?(Integer) && type.between?(-128, 127) && decoder.respond_to?(:call)
      end
    end
    ANY = ->(_value) { true }
    private_constant :FLAG, :EXTENSIONS, :ANY

    # The options of each format, with a check for each.
    OPTIONS = {
      json: { symbolize_names: FLAG, freeze: FLAG },
      msgpack: { symbolize_keys: FLAG, freeze: FLAG, ext: EXTENSIONS },
      # Avro::Decoder checks these, with better messages.
      avro: %i[registry schema writer framing decoder symbolize_names freeze].to_h { |option| [option, ANY] },
      bytes: {},
      utf8: {}
    }.freeze
    # Formats without fields for `where` and `dig`.
    STRINGS = %i[bytes utf8].freeze

    ALLOWED = "`:json` (with `symbolize_names: true` or false, `freeze: true` or false), " \
              "`:msgpack` (with `symbolize_keys`, `freeze` and `ext: {1 => ->(bytes) { … }}`), " \
              "`:avro` (with `registry: Pelton::Registry.new(…)` or `schema:`), " \
              "a Pelton::Avro::Decoder, `:bytes` or `:utf8`"

    module_function

    #: (untyped) -> bool
    def valid?(given)
      options = given.is_a?(Hash) ? given.except(:format) : {}
      name = name(given)
      allowed = OPTIONS[name] if name.is_a?(Symbol) # the hash value of a nested Array may take very long to compute
      !allowed.nil? && options.all? { |option, value| allowed[option]&.call(value) }
    end

    # :json of {format: :json, freeze: true}
    #: (untyped) -> Symbol?
    def name(given)
      return given[:format] if given.is_a?(Hash)
      return given if given.nil? || given.is_a?(Symbol) # without loading Avro

      given.is_a?(Avro::Decoder) ? :avro : given
    end

    # Adds the deserializers of payloads, keys and headers to the formats, for the native side. Returns, for example:
    #   {"orders" => {format: :json, deserializer: …, key_deserializer: …}}
    #: (Hash[String, untyped], Hash[String, untyped], ?Hash[String, untyped], ?Hash[String, untyped])
    #:   -> Hash[String, untyped]
    def with(formats, deserializers, keys = {}, headers = {})
      all = formats.is_a?(Hash) ? formats.transform_values { |given| given && frozen(given) } : formats.dup
      { deserializer: deserializers, key_deserializer: keys, headers_deserializer: headers }.each do |option, objects|
        objects.compact.each do |topic, object|
          given = all[topic]
          all[topic] = { **(given.is_a?(Hash) ? given : { format: given }), option => object }
        end
      end
      all
    end

    # The deserializer of keys: the object itself if it has `call(message)`, or one for this format.
    #: (untyped) -> untyped
    def key_maker(given)
      given.respond_to?(:call) && name(given) != :avro ? given : KeyFormat.new(frozen(given))
    end

    # The format, frozen, because native threads share it. An Avro format also gets its decoder.
    #: (Symbol | Hash[Symbol, untyped] | Avro::Decoder) -> (Symbol | Hash[Symbol, untyped])
    def frozen(given)
      return avro(given) if name(given) == :avro
      return given unless given.is_a?(Hash)

      given.transform_values { |value| value.is_a?(Hash) ? value.dup.freeze : value }.freeze
    end

    def avro(given)
      options = case given
                when Hash then given.except(:format)
                when Symbol then {}
                else { decoder: given }
                end
      decoder = options[:decoder] || Avro::Decoder.new(**options)
      { format: :avro, decoder: decoder, **decoder.flags, **options.slice(:symbolize_names, :freeze) }.freeze
    end
    private_class_method :avro
  end
end
