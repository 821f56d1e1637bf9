# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../errors"
require_relative "../../runtime/threads"

module Pelton
  class CLI
    class Doctor
      # Asks the schema registries of Avro routes: does each answer, and accept the login?
      class Registries
        # timeout: seconds for each.
        #: (Array[Routing::Group], Numeric) -> void
        def initialize(groups, timeout)
          @groups = groups
          @timeout = timeout
        end

        # Waits for the registries.
        #: (Report) -> void
        def examine(report)
          facts = registries.to_h { |registry, topic| [registry.inspect[/ (.*)>/m, 1], ask(report, registry, topic)] }
          report.add("schema registries", facts) unless facts.empty?
        end

        private

        # {registry => the first topic that it is for}
        def registries
          topics = @groups.flat_map { |group| group.topics.values }.reject(&:stage)
          topics.each_with_object({}.compare_by_identity) do |topic, found|
            next unless Formats.name(topic.decode) == :avro

            registry = topic.decode[:decoder].registry
            found[registry] ||= topic if registry.is_a?(Registry)
          end
        end

        # Any answer about the topic's subject will do. It may have a subject of another name.
        def ask(report, registry, topic)
          error = failure(registry, "#{topic.name}-value")
          return "answers" if error.nil? || error.missing?

          level = error.status == 403 ? :warning : :error
          report.public_send(level, "topic #{topic.pattern&.inspect || topic.name}", error.message)
          error.status ? "refuses the request (HTTP #{error.status})" : "no answer"
        end

        # The RegistryError; nil: there is none.
        def failure(registry, subject)
          found = RegistryError.new("subject #{subject}", "no answer within #{@timeout} s", url: registry.inspect)
          asking = Threads.start("pelton.doctor") do
            registry.latest(subject)
            found = nil
          rescue RegistryError => e
            found = e
          end
          asking.join(@timeout) || asking.kill
          found
        end
      end
    end
  end
end
