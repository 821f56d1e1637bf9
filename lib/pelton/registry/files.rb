# frozen_string_literal: true

require "json"
require_relative "../errors"
require_relative "schema"

module Pelton
  class Registry
    # Schemas from a folder, for tests, for scripts, and for topics without a registry. A file is named after its id,
    # its subject, or both: `7.avsc`, `orders-value.avsc`, `orders-value.7.avsc`. They may name each other's types. Read
    # once, when the first is wanted.
    class Files
      Found = Struct.new(:path, :subject, :id, :text, :name)
      private_constant :Found

      #: (String) -> void
      def initialize(folder)
        @folder = File.expand_path(folder)
        raise ConfigError.new("registry files", folder, "is no folder") unless File.directory?(@folder)

        @lock = Mutex.new
        # [Schema, …], once somebody asked.
        @schemas = nil
      end

      #: (Integer) -> Schema
      def schema(id) = find("schema #{id}") { |schema| schema.id == id }

      #: (Integer) -> Schema
      def fingerprint(number)
        find("fingerprint #{number.to_s(16)}") { |schema| schema.fingerprint == number }
      end

      #: (String) -> bot
      def guid(text) = find("GUID #{text}") { false }

      # A subject has one version here.
      #: (String, Integer | String) -> Schema
      def version(subject, _number) = find("subject #{subject}") { |schema| schema.subject == subject }

      #: (String, Schema) -> Integer
      def id_of(subject, schema)
        found = version(subject, nil)
        same = found.canonical == schema.canonical
        raise RegistryError.new("subject #{subject}", "has another schema in #{@folder}", status: 404) unless same

        found.id || raise(RegistryError.new("subject #{subject}", "its file has no id: #{subject}.<id>.avsc"))
      end

      #: (String, Schema) -> Integer
      def register(subject, schema) = id_of(subject, schema)

      def inspect = @folder

      private

      def find(what, &wanted)
        schemas = @lock.synchronize { @schemas ||= load }
        schemas.find(&wanted) || raise(RegistryError.new(what, "is not in #{@folder}", status: 404))
      end

      def load
        found = Dir.glob("*.avsc", base: @folder).sort.map { |file| read(file) }
        found.map do |one|
          references = needed(one, found, [one]) - [one]
          Schema.new(one.text, references: references.map(&:text), subject: one.subject, id: one.id)
        rescue ConfigError => e
          raise RegistryError.new(one.path, e.message)
        end
      end

      def read(file)
        path = File.join(@folder, file)
        text = File.read(path, encoding: "UTF-8")
        json = JSON.parse(text, max_nesting: false)
        subject, id = place(file.delete_suffix(".avsc"))
        Found.new(path, subject, id&.to_i, text, name(json))
      rescue JSON::ParserError
        raise RegistryError.new(path, "is no JSON")
      end

      # Subject and id of "orders-value.7"
      def place(base)
        case base
        when /\A\d+\z/ then [nil, base]
        when /\A(.+)\.(\d+)\z/ then [$1, $2]
        else [base, nil]
        end
      end

      # "shop.Order"
      def name(json)
        return unless json.is_a?(Hash) && json["name"].is_a?(String)

        json["name"].include?(".") ? json["name"] : [json["namespace"], json["name"]].compact.join(".")
      end

      # The files whose types one names, and what those need, before it; seen: those on the way.
      def needed(one, all, seen)
        others = all.reject { |other| seen.include?(other) || other.name.nil? || !names?(one.text, other.name) }
        seen.concat(others)
        [*others.flat_map { |other| needed(other, all, seen) }, one].uniq
      end

      def names?(text, name) = text.include?("\"#{name}\"") || text.include?("\"#{name[/[^.]+\z/]}\"")
    end
  end
end
