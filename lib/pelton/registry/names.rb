# frozen_string_literal: true

module Pelton
  class Registry
    # The type names in a schema's JSON: its own, those that it defines, and those that it uses.
    #   Names.new(JSON.parse('{"type":"record","name":"shop.Order","fields":[{"name":"l","type":"Line"}]}')).used
    #   # => [["shop.Line", "Line"]]
    class Names
      # Kinds of types that have a name.
      NAMED = %w[record error enum fixed].freeze

      # space: the enclosing namespace, "" for none.
      #: (String, String) -> String
      def self.full(name, space) = name.include?(".") || space.empty? ? name : "#{space}.#{name}"

      # The full name of a type that this JSON defines.
      #   Names.of({ "type" => "fixed", "name" => "Price", "size" => 2 }, "shop") # => "shop.Price"
      #: (Hash[String, untyped], String) -> String
      def self.of(json, space) = full(json["name"].to_s, json["namespace"]&.to_s || space)

      # The namespace inside of a type with this full name.
      #: (String) -> String
      def self.inner(name) = name[/.*(?=\.)/].to_s

      # own: "shop.Order", or nil if the schema has no name. used: pairs of the full name and the name as written.
      #: (defined: Array[String], used: Array[[String, String]])
      attr_reader :own, :defined, :used

      #: (untyped) -> void
      def initialize(json)
        @defined = []
        @used = []
        read(json, "")
        @own = @defined.first if json.is_a?(Hash) && NAMED.include?(json["type"])
      end

      private

      # space: the enclosing namespace. Ignores invalid parts: the schema parser reports them.
      def read(json, space)
        case json
        when String then @used << [Names.full(json, space), json]
        when Array then json.each { |branch| read(branch, space) }
        when Hash then object(json, space)
        end
      end

      def object(json, space)
        case json["type"]
        when "array" then read(json["items"], space)
        when "map" then read(json["values"], space)
        when *NAMED then named(json, space)
        else read(json["type"], space)
        end
      end

      def named(json, space)
        name = Names.of(json, space)
        @defined << name
        Array(json["fields"]).grep(Hash).each { |field| read(field["type"], Names.inner(name)) }
      end
    end
  end
end
