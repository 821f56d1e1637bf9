# frozen_string_literal: true

require "json"
require_relative "names"
require_relative "schema"

module Pelton
  class Registry
    # A schema with the types that it refers to in its own text, each where it is used first. So a registry can look at
    # it before it has these types.
    #   price = '{"type":"fixed","name":"Price","size":2}'
    #   Inlined.of(Schema.new('{"type":"array","items":"Price"}', references: [price])).text
    #   # => '{"type":"array","items":{"type":"fixed","name":"Price","size":2,"namespace":""}}'
    class Inlined
      #: (Schema) -> Schema
      def self.of(schema) = schema.references.empty? ? schema : Schema.new(new(schema).text)

      #: (Schema) -> void
      def initialize(schema)
        *references, @root = [*schema.references, schema.text].map { |text| JSON.parse(text, max_nesting: 0) }
        # {"shop.Price" => [its JSON, the namespace around it]}
        @types = {}
        references.each { |json| collect(json, "") }
        # Names of the types that the text has so far.
        @written = []
      end

      #: () -> String
      def text = JSON.generate(written(@root, ""), max_nesting: 0)

      private

      def collect(json, space)
        case json
        when Array then json.each { |branch| collect(branch, space) }
        when Hash
          space = define(json, space) if Names::NAMED.include?(json["type"])
          parts(json).each { |part| collect(part, space) }
        end
      end

      # Returns the namespace inside.
      def define(json, space)
        name = Names.of(json, space)
        @types[name] = [json, space]
        Names.inner(name)
      end

      def parts(json)
        [*json.values_at("items", "values"), *Array(json["fields"]).map { |field| field["type"] },
         (json["type"] unless json["type"].is_a?(String))]
      end

      def written(json, space)
        case json
        when Array then json.map { |branch| written(branch, space) }
        when Hash then Names::NAMED.include?(json["type"]) ? named(json, space) : unnamed(json, space)
        else used(json, space)
        end
      end

      def unnamed(json, space)
        json.to_h { |key, part| [key, %w[type items values].include?(key) ? written(part, space) : part] }
      end

      def named(json, space)
        name = Names.of(json, space)
        return name if @written.include?(name)

        @written << name
        made = { **json, "name" => name[/[^.]*\z/], "namespace" => Names.inner(name) }
        return made unless json["fields"]

        fields = json["fields"].map { |field| { **field, "type" => written(field["type"], Names.inner(name)) } }
        { **made, "fields" => fields }
      end

      def used(text, space)
        name = [Names.full(text, space), text].find { |known| @types.key?(known) || @written.include?(known) }
        return text unless name

        @written.include?(name) ? name : named(*@types[name])
      end
    end
    private_constant :Inlined
  end
end
