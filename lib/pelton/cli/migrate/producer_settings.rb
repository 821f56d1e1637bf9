# frozen_string_literal: true

require_relative "settings"

module Pelton
  class CLI
    module Migrate
      # Translates the settings of Karafka's own producer, `config.producer = WaterDrop::Producer.new { … }`, into
      # settings of the app: its producer and its consumers share config.kafka.
      class ProducerSettings < Settings
        # Options that the app's producer and consumers should not share without a look: {name => why}
        WITH_CARE = { "transactional.id" => "consumers need `transactional` in their route instead; for other code, " \
                                            "two processes must not share it" }.freeze
        private_constant :WITH_CARE

        # main: the name of the app's settings in the draft.
        #: (CodeFile, Draft, Expressions, String) -> void
        def initialize(file, draft, expressions, main)
          super(file, draft, expressions, PRODUCER_SETTINGS)
          @main = main
        end

        private

        def set(name, call)
          value = call.args.last
          return super unless name == "kafka"
          return options(call, value) if value.is?(:hash)

          copy(call, :same, "#{@main}.kafka = { **#{@main}.kafka, **#{text(value)} }", value)
          true
        end

        # Each option becomes one of the app's, unless the app has it with another value.
        def options(call, hash)
          file.found(call.node, :same, "#{@main}.kafka = { …, #{text(hash).lines.size > 1 ? "…" : inner(hash)} }")
          Call.pairs(hash).each { |name, value| option(name, value) }
          true
        end

        def option(name, value)
          pair = name == "**" ? "**#{text(value)}" : "#{name.inspect} => #{text(value)}"
          why = problem(value) || WITH_CARE[name]
          why ||= "#{@main}.kafka has another value" if given?(name) && !given?(name, text(value))
          return draft.todo("#{place(value)}: an option of the producer: #{pair}: #{why}") if why
          return if given?(name)

          draft.merge("#{@main}.kafka", pair) || draft.code("#{@main}.kafka = { **#{@main}.kafka, #{pair} }")
        end

        # true: the app has the option, with this value if one is given.
        def given?(name, value = nil)
          pair = /"#{Regexp.escape(name)}"(:| =>) #{"#{Regexp.escape(value)}(,| \\}|\\z)" if value}/
          draft.lines.any? { |line| line.match?(pair) }
        end

        def inner(hash) = text(hash).delete_prefix("{").delete_suffix("}").strip
        def fill(text, value) = super.sub(/\A#{@variable}\b/, @main)
      end
    end
  end
end
