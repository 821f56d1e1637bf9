# frozen_string_literal: true

require_relative "settings"

module Pelton
  class CLI
    module Migrate
      # Translates the settings of a producer that needs an app of its own. The draft does not have them.
      class SeparateProducer < Settings
        NOTE = "partitioner: keys go to the partitions that WaterDrop chose; docs/guides/moving-karafka-groups.md"
        private_constant :NOTE

        #: (CodeFile, Expressions) -> void
        def initialize(file, expressions) = super(file, Draft.new, expressions, PRODUCER_SETTINGS)

        private

        def set(name, call)
          return super if name != "kafka" || known.given?("partitioner")

          lines = Draft.new
          lines.code("#{target} = #{text(call.args.last)}")
          lines.add(target, PARTITIONER)
          file.found(call.node, :differs, lines.lines.join("\n"), NOTE)
          true
        end

        # The id is of this producer alone.
        def id_of(_pairs) = nil

        def copy(call, kind, line, *_nodes, note: nil) = file.found(call.node, kind, line, note)
      end
    end
  end
end
