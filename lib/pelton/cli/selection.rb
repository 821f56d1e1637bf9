# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/types"

module Pelton
  class CLI
    # Which groups and topics of the routes a command concerns: those that are included, without those that are
    # excluded. Options win over the environment variables of the same name.
    #   Selection.new({ exclude_groups: ["batch-*"] }).names({ "billing" => ["orders"], "batch-1" => ["a"] })
    #   # => { groups: ["billing"] }
    class Selection
      # {include_groups: "PELTON_INCLUDE_GROUPS", …}
      VARIABLES = %w[groups topics].flat_map do |kind|
        %w[include exclude].map { |verb| [:"#{verb}_#{kind}", "PELTON_#{verb.upcase}_#{kind.upcase}"] }
      end.to_h.freeze

      #: (Hash[Symbol, untyped], ?env: Hash[String, String]) -> void
      def initialize(options, env: ENV)
        # {exclude_groups: ["PELTON_EXCLUDE_GROUPS", ["batch-*"]], …}: what was given, and by what.
        @given = VARIABLES.to_h do |name, variable|
          typed = options[name].to_a
          next [name, ["--#{name.to_s.tr("_", "-")}", typed]] if typed.any?

          [name, [variable, [Settings.utf8(env[variable].to_s) || env[variable]].reject(&:empty?)]]
        end
      end

      # Without a filter of a kind, the result has no entry for it. routes: {"billing" => ["orders"]}. Raises
      # ConfigError for an unknown name, a pattern that matches nothing, and if nothing is left.
      #: (Hash[String, Array[String]]) -> Hash[Symbol, Array[String]]
      def names(routes)
        { groups: chosen("group", routes.keys), topics: chosen("topic", routes.values.flatten.uniq) }.compact
      end

      private

      def chosen(what, known)
        include, wanted = @given.fetch(:"include_#{what}s")
        exclude, unwanted = @given.fetch(:"exclude_#{what}s")
        return if wanted.empty? && unwanted.empty?

        found = wanted.empty? ? known : resolve(what, include, wanted, known)
        found -= resolve(what, exclude, unwanted, known)
        return found unless found.empty?

        raise ConfigError.new(exclude, unwanted.join(","), "leaves no #{what} to run")
      end

      # The known names that these texts mean, in the order of the routes.
      def resolve(what, source, texts, known)
        # A name in the routes may contain a comma, such as a Regexp.
        asked = texts.flat_map { |text| known.include?(text) ? [text] : text.split(",").map(&:strip) }.reject(&:empty?)
        raise ConfigError.new(source, texts.join(","), "names no #{what}") if asked.empty? && texts.any?

        asked.each { |text| check(what, source, text, known) }
        known.select { |name| asked.any? { |text| match?(text, name) } }
      end

      def check(what, source, text, known)
        return if known.any? { |name| match?(text, name) }
        raise ConfigError.unknown(text, known, what: "#{what} in #{source}") unless text.include?("*")

        raise ConfigError.new(source, text, "matches no #{what}, known are #{known.join(", ")}")
      end

      def match?(text, name)
        text == name || (text.include?("*") && name.match?(/\A#{Regexp.escape(text).gsub('\*', ".*")}\z/m))
      end
    end
  end
end
