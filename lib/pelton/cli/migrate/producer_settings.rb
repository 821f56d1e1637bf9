# frozen_string_literal: true

require_relative "settings"

module Pelton
  class CLI
    module Migrate
      # Translates the settings of Karafka's own producer, `config.producer = WaterDrop::Producer.new { … }`, into
      # settings of the app: its producer and its consumers share config.kafka.
      class ProducerSettings < Settings
        UNKNOWN_SERVERS = "consumers get these options, too: check that they are of the same cluster"
        private_constant :UNKNOWN_SERVERS

        # main: the name of the app's settings in the draft. app: the options that they have.
        #: (CodeFile, Draft, Expressions, String, KafkaOptions) -> void
        def initialize(file, draft, expressions, main, app)
          super(file, draft, expressions, PRODUCER_SETTINGS)
          @main = main
          @app = app
        end

        private

        def set(name, call)
          value = call.args.last
          return super unless name == "kafka"
          return options(call, Call.pairs(value), inner(value)) if value.is?(:hash)

          whole(call, value)
          true
        end

        # p.kafka[:x] = 1, p.kafka.merge!(x: 1)
        def kafka(call, _path)
          return options(call, call.keywords, pairs(call)) if call.keywords.any?
          return set("kafka", call) unless call.name == "[]="

          code = call.args.map { |argument| text(argument) }.join(" => ")
          options(call, { Call.literal(call.args.first).to_s => call.args.last }, code)
        end

        # p.kafka = OPTIONS
        def whole(call, value)
          return file.found(call.node, :same, target) if @app.others.include?(text(value))

          draft.todo("#{location(value)}: #{one_line(value)}: #{UNKNOWN_SERVERS}")
          copy(call, :same, "#{target} = { **#{target}, **#{text(value)} }", value)
        end

        # Each option becomes one of the app's, unless the app has it with another value.
        def options(call, pairs, code)
          file.found(call.node, :same, "#{target} = { …, #{code.lines.size > 1 ? "…" : code} }")
          pairs.each { |name, value| option(name, value) }
          true
        end

        def option(name, value)
          return splat(value) if name == "**"
          return leave_out(value) if name == TransactionalId::NAME
          return if given(name).any? && given(name) == known.values(name)

          pair = "#{name.inspect} => #{text(value)}"
          why = problem(value) || conflict(name)
          return refuse(value, pair, why) if why

          draft.add(target, pair)
          @app.put(name, known.values(name)) if known.values(name).size == 1 # otherwise, a condition chooses
        end

        def splat(value)
          return if @app.others.include?(text(value))

          pair = "**#{text(value)}"
          why = problem(value)
          return refuse(value, pair, why) if why

          draft.todo("#{location(value)}: #{pair}: #{UNKNOWN_SERVERS}")
          draft.add(target, pair)
        end

        def refuse(value, pair, why) = draft.todo("#{location(value)}: an option of the producer: #{pair}: #{why}")
        def given(name) = @app.values(name)

        # Why an option cannot join those of the app.
        def conflict(name)
          return "#{target} has another value" if given(name).any?

          UNKNOWN_SERVERS if KafkaOptions.servers?(name) && @app.others.any?
        end

        def message_timeouts = super + given("message.timeout.ms") + @app.others
        def target = "#{@main}.kafka"
        def inner(hash) = text(hash).delete_prefix("{").delete_suffix("}").strip
        def fill(text, value) = super.sub(/\A#{@variable}\b/, @main)
      end
    end
  end
end
