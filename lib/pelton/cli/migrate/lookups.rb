# frozen_string_literal: true

require_relative "../../message/karafka_origin"
require_relative "call"
require_relative "finding"

module Pelton
  class CLI
    module Migrate
      # Reports what code looks up by a name: ENV["KARAFKA_ENV"], message.headers["source_topic"].
      class Lookups
        METHODS = %w[fetch dig key? delete].freeze
        ENVIRONMENT = {
          "KARAFKA_ENV" => Migrate.differs("ENV[\"PELTON_ENV\"]", "without it, RAILS_ENV counts, then RACK_ENV"),
          "KARAFKA_BOOT_FILE" => Migrate.differs("pelton server -r ./app.rb", "the option names the file")
        }.freeze
        HEADERS = /(\.metadata)?(\.|\A)(raw_)?headers\z/
        ORIGIN = "letters of Pelton have no such headers; origin reads those of Karafka, too"
        TRACE = Migrate.none("message.origin.failure_id names the failure of a letter of Pelton")
        private_constant :METHODS, :ENVIRONMENT, :HEADERS, :ORIGIN, :TRACE

        #: (CodeFile) -> void
        def initialize(file)
          @file = file
        end

        # call: the node as a call; nil: it is none.
        #: (Node, Call?) -> void
        def report(node, call)
          receiver, key = node.is?(:aref, :aref_field) ? index(node) : read(call)
          return unless receiver && (name = Call.literal(key)).is_a?(String)

          row = row(@file.text(receiver), name)
          @file.found(node, row.kind, row.pelton, row.note) if row
        end

        private

        def index(node) = [node.children[0], node.children[1]&.nodes&.first]
        def read(call) = (([call.receiver, call.args.first] if call.receiver) if call && METHODS.include?(call.name))

        def row(receiver, name)
          return ENVIRONMENT[name] if receiver == "ENV"
          return unless receiver.match?(HEADERS)
          return TRACE if KarafkaOrigin::TRACES.include?(name)

          field = KarafkaOrigin::NAMES[name] or return
          message = receiver.sub(HEADERS, "")
          Migrate.differs("#{message.empty? ? "message" : message}.origin&.#{field}", ORIGIN)
        end
      end
    end
  end
end
