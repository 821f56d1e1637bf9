# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../errors"
require_relative "../../runtime/threads"

module Pelton
  class CLI
    class Doctor
      # Asks the schema registries of Avro routes and of serializers: does each answer, and accept the login?
      class Registries
        # middleware: that of the producers. timeout: seconds for each.
        #: (Array[Routing::Group], Array[untyped], Numeric) -> void
        def initialize(groups, middleware, timeout)
          @groups = groups
          @middleware = middleware
          @timeout = timeout
        end

        # Waits for the registries.
        #: (Report) -> void
        def examine(report)
          facts = users.to_h { |registry, user| [registry.inspect[/ (.*)>/m, 1], ask(report, registry, *user)] }
          report.add("schema registries", facts) unless facts.empty?
        end

        private

        # {registry => [what it is for first, the topic of that]}
        def users
          [*readers, *writers].each_with_object({}) do |(registry, *user), found|
            found[registry] ||= user if registry.is_a?(Registry)
          end
        end

        def readers
          topics = @groups.flat_map { |group| group.topics.values }.reject(&:stage)
          topics.select { |topic| Formats.name(topic.decode) == :avro }.map do |topic|
            [topic.decode[:decoder].registry, "topic #{topic.pattern&.inspect || topic.name}", topic.name]
          end
        end

        def writers
          @middleware.grep(Avro::Serializer).map do |serializer|
            [serializer.registry, "middleware #{serializer.class}", serializer.topics&.first || "pelton"]
          end
        end

        # Any answer about the topic's subject will do. It may have a subject of another name.
        def ask(report, registry, about, topic)
          error = failure(registry, "#{topic}-value")
          return "answers" if error.nil? || error.missing?

          level = error.status == 403 ? :warning : :error
          report.public_send(level, about, error.message)
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
