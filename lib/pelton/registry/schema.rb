# frozen_string_literal: true

require "json"
require_relative "../errors"

module Pelton
  class Registry
    # An Avro schema with its id, subject and version in the registry. Frozen.
    #   Pelton::Registry::Schema.new('{"type":"record","name":"Order","fields":[…]}')
    class Schema
      # The native side's limit of nesting.
      LEVELS = 512
      private_constant :LEVELS

      # text: its JSON. references: the texts of the schemas that it refers to, each after those that it refers to
      # itself.
      # named: the registry's names of these: [{"name" => …, "subject" => …, "version" => …}]. id, subject, version: nil
      # if unknown.
      #: (text: String)
      attr_reader :text, :references, :named, :id, :subject, :version

      # text: JSON, or what it stands for: {"type" => "record", …}. references, named, id, subject, version: as the
      # registry says. Raises ConfigError if it is not a schema.
      #   Pelton::Registry::Schema.new(File.read("order.avsc"))
      #: ((String | Hash[untyped, untyped] | Array[untyped]), ?references: Array[String],
      #:  ?named: Array[Hash[String, untyped]], ?id: Integer?, ?subject: String?, ?version: Integer?) -> void
      def initialize(text, references: [], named: [], id: nil, subject: nil, version: nil)
        @text = utf8(text.is_a?(String) ? text : json(text))
        @references = references.map { |reference| utf8(reference) }.freeze
        @named = named
        @id = id
        @subject = subject
        @version = version
        @native = Native::AvroSchema.new(@text, @references)
        @key = @references.empty? ? @text : [@text, *@references, @named.inspect].join("\n").freeze
        freeze
      rescue EncodingError => e
        raise ConfigError.new("schema", nil, e.message)
      end

      # For Pelton: a Schema of JSON, or of what JSON stands for.
      #: (untyped) -> Schema
      def self.of(given)
        case given
        when Schema then given
        when String, Hash, Array then new(given)
        else raise ConfigError.new(:schema, given.class, "expected a schema's JSON, or a Pelton::Registry::Schema")
        end
      end

      # The full name of a record, an enum or a fixed; nil for others.
      #   schema.name # => "shop.Order"
      #: () -> String?
      def name = @native.name

      # Avro's "parsing canonical form". Two schemas that read documents the same way have the same.
      #   schema.canonical # => "{\"name\":\"shop.Order\",…"
      #: () -> String
      def canonical = @native.canonical

      # CRC-64-AVRO of the canonical form, 0 to 2**64 - 1.
      #   schema.fingerprint # => 1234567890
      #: () -> Integer
      def fingerprint = @native.fingerprint

      # The document of a value, without framing. framed: for Confluent's framing, where a schema of just bytes has no
      # length.
      #   schema.encode({ "id" => 7 })
      # Raises EncodeError, which names the field.
      #
      # Reading the value's Ruby objects needs the GVL, in proportion to their number. Every 10 ms other Ruby threads
      # get their turn. A value of 256 KB or more is then encoded without the GVL.
      #: (untyped, ?framed: bool) -> String
      def encode(value, framed: false) = @native.encode(value, framed)

      # For the native side.
      #: () -> untyped
      attr_reader :native

      # For Pelton: the same for schemas whose numbers are the same.
      #: () -> String
      attr_reader :key

      def inspect = "#<#{self.class} #{name || @text[0, 40]}#{" id #{@id}" if @id}>"

      private

      def json(tree)
        JSON.generate(tree, max_nesting: LEVELS)
      rescue JSON::JSONError => e
        raise ConfigError.new(:schema, nil, "cannot be written as JSON: #{e.message}")
      end

      # Treats binary Strings, for example from a file, as UTF-8.
      def utf8(text)
        binary = text.encoding == Encoding::BINARY
        text = binary ? text.dup.force_encoding(Encoding::UTF_8) : text.encode(Encoding::UTF_8)
        text.valid_encoding? ? text.freeze : raise(EncodingError, "it is not valid UTF-8")
      end
    end
  end
end
