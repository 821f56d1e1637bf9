# frozen_string_literal: true

require "date"
require "json"
require "time"
require_relative "../../avro"

module Pelton
  class CLI
    # Makes of a line's JSON the values that an Avro schema asks for: a decimal of 9.99 or "9.99", a Time or Date of ISO
    # 8601, and bytes of {"base64" => "/w=="}. So `pelton produce` reads what `pelton consume` prints. It leaves a value
    # that does not fit to the serializer, whose error names the field.
    #   AvroValues.new(schema).of({ "total" => "9.99" }) # => { "total" => 0.999e1 }
    class AvroValues
      # A number with a fraction or an exponent, and all its digits: JSON.parse's decimal_class.
      Number = Struct.new(:text) do
        def to_json(*) = text
      end
      # classes: of the values that the type takes. convert: makes one of a value, or leaves it.
      Type = Struct.new(:classes, :convert)
      PRIMITIVE = { "null" => [NilClass], "boolean" => [TrueClass, FalseClass], "int" => [Integer], "long" => [Integer],
                    "float" => [Integer, Float], "double" => [Integer, Float], "string" => [String],
                    "bytes" => [String] }.freeze
      private_constant :Type, :PRIMITIVE

      #: (Registry::Schema) -> void
      def initialize(schema)
        @names = {} # {"shop.Order" => Type}
        texts = [*schema.references, schema.text]
        @type = texts.map { |text| type(JSON.parse(text, max_nesting: 0), "") }.last
      end

      #: (untyped) -> untyped
      def of(value) = @type.convert.call(value)

      private

      # space: the namespace around it, "" for none. A type is defined before it is used.
      def type(json, space)
        case json
        when Array then union(json.map { |branch| type(branch, space) })
        when String then PRIMITIVE.key?(json) ? primitive(json) : @names[full(json, space)] || @names.fetch(json)
        else complex(json, space)
        end
      end

      def complex(json, space)
        case json["type"]
        when "record", "error" then record(json, name(json, space))
        when "enum" then define(name(json, space), [String], method(:plain))
        when "fixed" then define(name(json, space), *logical(json, [String, Hash]).values)
        when "array" then items(type(json["items"], space))
        when "map" then values(type(json["values"], space))
        when *PRIMITIVE.keys then logical(json, PRIMITIVE[json["type"]])
        else type(json["type"], space)
        end
      end

      def name(json, space) = full(json["name"], json["namespace"] || space)
      def full(name, space) = name.include?(".") || space.empty? ? name : "#{space}.#{name}"
      def define(name, classes, convert) = @names[name] = Type.new(classes, convert)

      def record(json, name)
        fields = {}
        made = define(name, [Hash], lambda do |value|
          next plain(value) unless value.is_a?(Hash)

          value.to_h { |key, field| [key, fields.key?(key) ? fields[key].convert.call(field) : plain(field)] }
        end)
        json["fields"].each { |field| fields[field["name"]] = type(field["type"], name[/.*(?=\.)/].to_s) }
        made
      end

      def items(type)
        Type.new([Array], ->(value) { value.is_a?(Array) ? value.map(&type.convert) : plain(value) })
      end

      def values(type)
        Type.new([Hash], ->(value) { value.is_a?(Hash) ? value.transform_values(&type.convert) : plain(value) })
      end

      # The first branch that takes the value. A text stays a text if the union has one.
      def union(branches)
        text = branches.any? { |branch| branch.classes == [String] && branch.convert == method(:plain) }
        Type.new(branches.flat_map(&:classes), lambda do |value|
          next value if value.is_a?(String) && text

          found = branches.lazy.map { |branch| [branch, branch.convert.call(value)] }
                          .find { |branch, made| branch.classes.any? { |klass| made.is_a?(klass) } }
          found ? found.last : plain(value)
        end)
      end

      def primitive(name) = Type.new(PRIMITIVE.fetch(name), name == "bytes" ? method(:bytes) : method(:plain))

      # A type with a logicalType, if it has one.
      def logical(json, classes)
        binary = json["type"] == "bytes" || json["type"] == "fixed"
        case json["logicalType"]
        when "decimal" then binary ? read([Numeric]) { |value| Avro.decimal(digits(value)) } : primitive(json["type"])
        when "date" then read([Date, Integer]) { |value| Date.iso8601(value) }
        when /\A(local-)?timestamp-/ then read([Time, Integer]) { |value| Time.iso8601(value) }
        else Type.new(classes, binary ? method(:bytes) : method(:plain))
        end
      end

      # The block gets a text or number, and raises ArgumentError or TypeError if it is none of the type.
      def read(classes)
        Type.new(classes, lambda do |value|
          yield value
        rescue ArgumentError, TypeError
          plain(value)
        end)
      end

      def digits(value)
        case value
        when Number then value.text
        when String, Integer then value.to_s
        else raise TypeError
        end
      end

      def bytes(value)
        value.is_a?(Hash) && value.keys == ["base64"] ? value["base64"].unpack1("m0") : plain(value)
      rescue ArgumentError, NoMethodError
        plain(value)
      end

      # The same with Floats.
      def plain(value)
        case value
        when Number then Float(value.text)
        when Array then value.map { |nested| plain(nested) }
        when Hash then value.transform_values { |nested| plain(nested) }
        else value
        end
      end
    end
  end
end
