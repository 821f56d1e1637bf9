# frozen_string_literal: true

require "json"
require_relative "../registry"

module Pelton
  module Avro
    # The types that a field may have, by a schema. So a condition of `where` can be checked before messages arrive.
    #   FieldTypes.new(schema).at(["lines", 0, "price"]) # => [{ "type" => "bytes", "logicalType" => "decimal", … }]
    class FieldTypes
      DURATION = %w[months days millis].freeze
      # What values of a type are compared with.
      NUMBER = "a number"
      WANTED = { "int" => NUMBER, "long" => NUMBER, "float" => NUMBER, "double" => NUMBER, "string" => "a String",
                 "enum" => "a String", "bytes" => "a String", "fixed" => "a String",
                 "boolean" => "true or false" }.freeze
      # Type => class
      KINDS = { "a String" => [String], NUMBER => [Numeric], "true or false" => [TrueClass, FalseClass],
                "a Time" => [Time] }.freeze
      private_constant :DURATION, :NUMBER, :WANTED, :KINDS

      # For errors: "the schema shop.Order".
      #: String
      attr_reader :name

      #: (Registry::Schema) -> void
      def initialize(schema)
        @name = ["the schema", *schema.name].join(" ")
        # {"shop.Order" => [its JSON, "shop"]}
        @named = {}
        texts = [*schema.references, schema.text].map { |text| JSON.parse(text, max_nesting: 0) }
        texts.each { |json| define(json, "") }
        @root = texts.last
      end

      # The types of a path, without unions, each as JSON has it; empty: no value has such a field.
      #: (Array[String | Integer]) -> Array[Hash[String, untyped]]
      def at(path)
        found = path.inject(branches(@root, "")) do |types, step|
          types.flat_map { |json, space| inside(json, space, step) }
        end
        found.map(&:first)
      end

      # Why no value of the path ever equals this one, or is less or greater; nil: it may.
      #   types.mismatch(["total"], "9.99") # => "\"9.99\" never matches decimal: compare it with a number"
      #: (Array[String | Integer], untyped) -> String?
      def mismatch(path, value)
        types = at(path).reject { |json| json["type"] == "null" }
        return if value.nil? || types.empty? || types.any? { |json| takes?(json, value) }

        enum = types.find { |json| json["type"] == "enum" && value.is_a?(String) }
        return "#{enum["name"]} has no symbol #{value.inspect}" if enum

        words = types.map { |json| json["logicalType"] || json["type"] }.uniq.join(" or ")
        kinds = types.map { |json| wanted(json) }.uniq.join(" or ")
        "#{value.inspect} never matches #{words}: compare it with #{kinds}"
      end

      private

      # space: the namespace around it, "" for none.
      def define(json, space)
        case json
        when Array then json.each { |branch| define(branch, space) }
        when Hash
          space = named(json, space) if Registry::Names::NAMED.include?(json["type"])
          [json["items"], json["values"], *Array(json["fields"]).map { |field| field["type"] },
           (json["type"] unless json["type"].is_a?(String))].each { |part| define(part, space) }
        end
      end

      # Returns the namespace inside.
      def named(json, space)
        name = Registry::Names.of(json, space)
        inner = Registry::Names.inner(name)
        @named[name] = [json, inner]
        inner
      end

      # [[type, namespace], …] without unions and names.
      def branches(json, space)
        case json
        when Array then json.flat_map { |branch| branches(branch, space) }
        when String then [known(json, space) || [{ "type" => json }, space]]
        else
          type = json["type"]
          return [@named.fetch(Registry::Names.of(json, space))] if Registry::Names::NAMED.include?(type)

          type.is_a?(String) && !known(type, space) ? [[json, space]] : branches(type, space)
        end
      end

      # [its JSON, the namespace inside]; nil: no defined type has this name, as for "long".
      def known(name, space) = @named[Registry::Names.full(name, space)] || @named[name]

      def inside(json, space, step)
        case [json["type"], step]
        in ["record" | "error", String]
          json["fields"].select { |field| field["name"] == step }.flat_map { |field| branches(field["type"], space) }
        in ["map", String] then branches(json["values"], space)
        in ["array", Integer] then branches(json["items"], space)
        in ["fixed", String] then duration(json, step)
        else []
        end
      end

      def duration(json, step)
        json["logicalType"] == "duration" && DURATION.include?(step) ? [[{ "type" => "long" }, ""]] : []
      end

      def takes?(json, value)
        return json["symbols"].include?(value) if json["type"] == "enum" && value.is_a?(String)

        wanted = wanted(json)
        return defined?(::Date) && value.is_a?(::Date) if wanted == "a Date"

        KINDS.fetch(wanted, []).any? { |kind| value.is_a?(kind) }
      end

      def wanted(json)
        case json.values_at("type", "logicalType")
        in ["bytes" | "fixed", "decimal" | "big-decimal"] then NUMBER
        in ["int", "date"] then "a Date"
        in ["long", /\A(local-)?timestamp-/] then "a Time"
        in [String => type, _] then WANTED.fetch(type, "one of its fields")
        end
      end
    end
  end
end
