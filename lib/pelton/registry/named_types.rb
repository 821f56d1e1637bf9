# frozen_string_literal: true

require "json"
require_relative "../errors"
require_relative "names"

module Pelton
  class Registry
    # Checks that the types in a schema's `references` are those that the registry has in the subjects and versions of
    # `named`. The registry only looks at the schema's own text and at `named`. So it would return the number of an
    # older schema: messages would be written with one type, and read with the other.
    #   NamedTypes.new("orders-value", schema).check { |subject, version| registry.version(subject, version) }
    class NamedTypes
      EXPECTED = 'expected objects such as { "name" => "shop.Price", "subject" => "shop.Price-value", "version" => 1 }'
      private_constant :EXPECTED

      # subject: for errors.
      #: (String, Schema) -> void
      def initialize(subject, schema)
        @subject = subject
        @named = schema.named
        referred = Types.new(schema.references)
        @types = Types.new([*schema.references, schema.text])
        # Names of the types in `references` that the schema uses.
        @used = @types.used & referred.names
      end

      # Raises RegistryError if a type is another one, or is in no subject of `named`; ConfigError if `named` is wrong.
      # The block returns the registry's Schema of a subject and version.
      #: () { (String, Integer) -> Schema } -> void
      def check(&version)
        found = @named.flat_map { |reference| compare(*place(reference), &version) }
        missing = @used - found
        return if missing.empty?

        refuse("#{missing.first} is in references:, but not in named: name its subject and version there, too")
      end

      private

      def place(reference)
        place = reference.transform_keys(&:to_s).values_at("subject", "version") if reference.is_a?(Hash)
        place in [String, Integer] or raise ConfigError.new("named", reference, EXPECTED)
        place
      end

      # Returns the names of the types in this version, with those that it refers to itself.
      def compare(subject, version)
        schema = yield(subject, version)
        types = Types.new([*schema.references, schema.text])
        other = @used.find { |name| types.names.include?(name) && types[name] != @types[name] }
        return types.names unless other

        refuse("#{other} in references: is not that of #{subject} version #{version} in named:, so messages could " \
               "not be read: put that version's text into references:, or register yours and name its version")
      end

      def refuse(reason) = raise(RegistryError.new("subject #{@subject}", reason))

      # What a reader must know of the types in some texts, each after those that it uses. Aliases, defaults and
      # documentation are left out: a reader uses its own.
      class Types
        PRIMITIVE = %w[null boolean int long float double bytes string].freeze
        private_constant :PRIMITIVE

        #: (Array[String]) -> void
        def initialize(texts)
          # {"shop.Price" => ["record", [["cents", ["long"]]]]}. The names of other types are Symbols.
          @all = {}
          @last = texts.map { |text| type(JSON.parse(text, max_nesting: 0), "") }.last
        end

        #: () -> Array[String]
        def names = @all.keys

        #: (String) -> untyped
        def [](name) = @all[name]

        # The names of the types that the last text uses, directly and indirectly.
        #: () -> Array[String]
        def used = reach(@last, [])

        private

        def reach(type, found)
          [type].flatten.grep(Symbol).map(&:to_s).each do |name|
            reach(@all[name], found << name) unless found.include?(name)
          end
          found
        end

        # space: the namespace around it, "" for none.
        def type(json, space)
          case json
          when Array then json.map { |branch| type(branch, space) }
          when Hash then complex(json, space)
          when *PRIMITIVE then [json]
          else [Names.full(json, space), json].find { |name| @all.key?(name) }.to_s.to_sym
          end
        end

        def complex(json, space)
          case json["type"]
          when *Names::NAMED then named(json, Names.of(json, space))
          when "array" then ["array", type(json["items"], space)]
          when "map" then ["map", type(json["values"], space)]
          when *PRIMITIVE then logical(json)
          else type(json["type"], space)
          end
        end

        # The name is known within the type.
        def named(json, name)
          @all[name] = nil
          fields = Array(json["fields"]).map { |field| [field["name"], type(field["type"], Names.inner(name))] }
          @all[name] = [*logical(json), fields, json["symbols"], json["size"]]
          name.to_sym
        end

        # A reader makes other values with another logical type. Without a scale, it is 0.
        def logical(json)
          kind = json["logicalType"]
          kind ? [json["type"], kind, json["precision"], json["scale"] || 0] : [json["type"]]
        end
      end
      private_constant :Types
    end
    private_constant :NamedTypes
  end
end
