# frozen_string_literal: true

require_relative "call"
require_relative "event_rows"
require_relative "usage_rows"

module Pelton
  class CLI
    module Migrate
      # What becomes of calls whose arguments are part of the answer: pause(offset, 2_000) → pause(2, at: offset).
      class CallRows
        FIELDS = "other values: docs/reference/events.md"
        PRODUCER_APP = "for a producer of an app of its own: app.subscribe"
        # Options of a WaterDrop variant: librdkafka's name → the keyword of `with`. Times are in ms there.
        VARIANT = { "acks" => "acks", "request.required.acks" => "acks", "compression.codec" => "compression",
                    "compression.type" => "compression", "compression.level" => "compression_level",
                    "partitioner" => "partitioner" }.freeze
        TIMES = { "message.timeout.ms" => "message_timeout", "delivery.timeout.ms" => "message_timeout",
                  "request.timeout.ms" => "request_timeout", "max_wait_timeout" => "timeout" }.freeze
        OWN = "for an event of your own, after Pelton.define_event: docs/guides/monitoring.md, Events of your own"
        ONLY_PELTON = "only Pelton publishes its events; in specs: docs/guides/testing.md, Events"
        LISTENER = "this list has what its on_… methods need; those of a gem: docs/reference/events.md"
        # Karafka's pause(:consecutive, 2_000)
        WITHOUT_OFFSET = "without an offset; unmarked messages of this call come again after the pause: mark what is " \
                         "done first"
        # What code asks of `topic` in a consumer: {method => what to keep in a constant}
        OF_TOPIC = { "consumer_group" => "the group's name", "subscription_group" => "the group's name",
                     "dead_letter_queue" => "the settings of dead letters, such as the name of their topic" }.freeze
        private_constant :PRODUCER_APP, :VARIANT, :TIMES, :LISTENER, :OWN, :ONLY_PELTON, :WITHOUT_OFFSET, :OF_TOPIC

        #: (CodeFile) -> void
        def initialize(file)
          @file = file
        end

        # In a consumer. nil: it is Pelton's already.
        #: (Call) -> Row?
        def pause(call)
          offset, time = call.args
          return if offset.nil? || call.keywords.key?("at") || (time.nil? && Call.literal(offset).is_a?(Numeric))

          seconds = time ? @file.seconds(time) : "…"
          return Migrate.differs("pause(#{seconds})", WITHOUT_OFFSET) if Call.literal(offset) == :consecutive

          Migrate.differs("pause(#{seconds}, at: #{@file.text(offset)})", "seconds first, and the offset is `at:`")
        end

        # In a consumer: topic.name, topic.consumer_group.id. nil: nothing changes.
        #: (Call) -> Row?
        def topic(call)
          return unless call.receiver.is?(:vcall) && @file.text(call.receiver) == "topic"
          return Migrate.same("topic", "a String") if call.name == "name"
          return if String.method_defined?(call.name)

          Migrate.none("topic is a String, the name: keep #{OF_TOPIC.fetch(call.name, "what else you need")}, for " \
                       "example, in a constant")
        end

        # In a consumer. nil: it is Pelton's already.
        #: (Call) -> Row?
        def seek(call)
          return if call.args.size < 2 && call.keywords.empty?

          Migrate.differs("seek(#{@file.text(call.args.first)})",
                          "without options: the new place is committed, also an earlier one; with manual_offsets, it " \
                          "is not")
        end

        # In a consumer. nil: nothing changes.
        #: (Call) -> Row?
        def mark(call)
          message, metadata = call.args
          return unless metadata

          Migrate.differs("#{call.name}(#{@file.text(message)}, metadata: #{@file.text(metadata)})",
                          "the metadata is a keyword")
        end

        # `variant` and `with` of a producer. nil: it is Pelton's already.
        #: (Call) -> Row?
        def variant(call)
          theirs = call.keywords.key?("topic_config") || call.keywords.key?("max_wait_timeout")
          return unless call.name == "variant" || theirs

          options = { **call.keywords.except("topic_config", "default"), **topic_config(call) }
          code = options.map { |name, value| option(name, value) }
          code = ["…"] if code.empty? || !code.all?
          Migrate.differs("with(#{code.join(", ")})", "options have names of their own: docs/guides/producing.md")
        end

        # `subscribe` of a producer's monitor, or of Karafka's. nil: another row has what it gets.
        #: (Call, producer: bool) -> Row?
        def subscribe(call, producer:)
          name = Call.literal(call.args.first)
          return listener(call, producer) unless name.is_a?(String)

          to, note = (producer ? PRODUCER_EVENTS : EVENTS)[name]
          return Migrate.none("no such event: docs/reference/events.md") unless to

          Migrate.differs("Pelton.subscribe(#{to.inspect}) { |event| … }",
                          [*note, (producer ? PRODUCER_APP : FIELDS)].join("; "))
        end

        # A call on the middleware of Karafka's producer, or of a constant (own).
        #: (Call, own: bool) -> Row
        def middleware(call, own:)
          row = Migrate.middleware(call.name)
          own ? Migrate.differs(row.pelton, "#{row.note}; of a producer of an app of its own: app.middleware") : row
        end

        # `instrument` of a monitor, which publishes an event.
        #: (Call) -> Row
        def instrument(call)
          name = Call.literal(call.args.first)
          return Migrate.none(ONLY_PELTON) if EVENTS.key?(name) || PRODUCER_EVENTS.key?(name)

          Migrate.differs("Pelton.publish(#{event(name)}, …)", OWN)
        end

        # `register_event` of the monitor's bus.
        #: (Call) -> Row
        def register_event(call)
          Migrate.differs("Pelton.define_event(#{event(Call.literal(call.args.first))}, …)",
                          "names the values of the event: docs/guides/monitoring.md, Events of your own")
        end

        # karafka.consumer_for(:orders, :billing) in a spec
        #: (Call) -> Row
        def consumer_for(call)
          topic, group = call.args.map { |node| @file.name(node) }
          Migrate.differs("consumer_for(#{topic || "…"}#{", group: #{group}" if group})", SPECS)
        end

        private

        # Those of Karafka itself have rows.
        def listener(call, producer)
          code = @file.text(call.args.first)
          note = producer ? "#{LISTENER}; #{PRODUCER_APP}" : LISTENER
          Migrate.differs("Pelton.subscribe(#{code})", note) unless code.match?(/\A((::)?(Karafka|WaterDrop)\b|\z)/)
        end

        def event(name) = name.is_a?(String) ? name.inspect : "\"…\""

        def topic_config(call)
          node = call.keywords["topic_config"]
          node&.is?(:hash) ? Call.pairs(node) : { "…" => node }.compact
        end

        # "acks: 1"; nil: Pelton has no such option.
        def option(name, value)
          return "#{VARIANT[name]}: #{@file.text(value)}" if VARIANT.key?(name)

          "#{TIMES[name]}: #{@file.seconds(value)}" if TIMES.key?(name)
        end
      end
    end
  end
end
