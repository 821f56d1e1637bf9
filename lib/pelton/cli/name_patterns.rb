# frozen_string_literal: true

module Pelton
  class CLI
    # Names that a user typed for topics or groups: "orders", or a pattern such as "orders*".
    module NamePatterns
      # The known names that these mean; of none, all. A name may look like a pattern, and then means itself. The block
      # makes the error for a name that is not known.
      #   NamePatterns.select(["o*"], ["orders", "bills"]) { |name| … } # => ["orders"]
      #: (Array[String], Array[String]) { (String) -> Exception } -> Array[String]
      def self.select(given, known)
        return known if given.empty?

        given.flat_map do |name|
          next name if known.include?(name)
          raise yield(name) unless name.match?(/[*?\[]/)

          known.select { |candidate| File.fnmatch?(name, candidate, File::FNM_DOTMATCH) }
        end.uniq
      end
    end
  end
end
