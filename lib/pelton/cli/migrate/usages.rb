# frozen_string_literal: true

require_relative "call"
require_relative "call_rows"
require_relative "lookups"
require_relative "sidekiq_calls"
require_relative "sidekiq_rows"
require_relative "subscribers"
require_relative "transaction_calls"
require_relative "usage_rows"

module Pelton
  class CLI
    module Migrate
      # Reports what a file uses of other frameworks outside of settings and routes: constants, consumers, specs,
      # workers and gems.
      class Usages
        ADAPTER = "config.active_job.queue_adapter = :pelton"
        ADAPTERS = { "karafka" => Migrate.same(ADAPTER, "docs/guides/active-job.md"),
                     "sidekiq" => Migrate.differs(ADAPTER, "or keep Sidekiq; docs/guides/active-job.md") }.freeze
        OPTIONS = Migrate.differs("pelton_key { |job| … } instead of partitioner",
                                  "config.confirm_jobs instead of dispatch_method; docs/guides/active-job.md")
        UNSUBSCRIBE = Migrate.differs("Pelton.unsubscribe(…)", "gets what Pelton.subscribe returned")
        VARIANTS = %w[variant with].freeze
        KARAFKA = %w[Karafka::BaseConsumer Karafka::Pro::BaseConsumer ApplicationConsumer].freeze
        # Blocks whose calls have rows of their own.
        BLOCKS = { "Sidekiq.configure_server" => SIDEKIQ_CONFIG, "Sidekiq.configure_client" => SIDEKIQ_CONFIG,
                   "Racecar.configure" => RACECAR_CONFIG }.freeze
        # Methods of consumers that get no messages.
        HOOKS = %w[revoked shutdown tick eofed on_revoked on_shutdown on_tick on_eofed].freeze
        NO_MESSAGES = Migrate.differs(nil, "empty in this method, not the last batch: keep what it needs in `consume`")
        private_constant :ADAPTER, :ADAPTERS, :OPTIONS, :UNSUBSCRIBE, :VARIANTS, :KARAFKA, :BLOCKS, :HOOKS,
                         :NO_MESSAGES

        # :karafka or :racecar if a class with this superclass is such a consumer.
        #: (String, Hash[String, String]) -> Symbol?
        def self.kind(parent, parents)
          20.times do # a cycle of superclasses ends, too
            return :karafka if KARAFKA.include?(parent)
            return :racecar if parent == "Racecar::Consumer"

            parent = parents[parent] or return
          end
          nil
        end

        # definitions: those of all files. The block says whether the app defines a method.
        #: (CodeFile, Definitions) { (String) -> bool } -> void
        def initialize(file, definitions, &defined)
          @file = file
          @definitions = definitions
          @parents = definitions.parents
          @workers = definitions.workers
          @defined = defined
          @calls = CallRows.new(file)
          @sidekiq = SidekiqCalls.new(file, @workers)
          @subscribers = Subscribers.new(file, definitions.listeners)
          @transactions = TransactionCalls.new(file, definitions)
          @lookups = Lookups.new(file)
          @job = nil
          # Is the node in the class of Karafka's app? There, `monitor` is Karafka.monitor.
          @app = false
        end

        #: () -> void
        def report = visit(@file.root, nil, nil)

        private

        attr_reader :file

        # kind: :karafka or :racecar inside of such a consumer, or the rows of a block. method: the one around the node.
        def visit(node, kind, method)
          case node.type
          when :class
            job(node)
            kind = consumer(node)
            constants(node.children[1]) unless kind
            @subscribers.listener(node)
            return within(node) { visit(node.children.last, kind, nil) }
          when :def
            method = node.children.first.token
            definition(node, kind, method)
          end
          call = Call.of(node)
          @lookups.report(node, call)
          call ? use(call, kind, method) : constants(node)
          kind = kind_of_block(call) || kind if call&.block
          @transactions.within(call, consumer: kind == :karafka) do
            node.nodes.each { |part| visit(part, kind, method) }
          end
        end

        # Keeps what the class of the node is, while it is visited: a job of Sidekiq's, or Karafka's app.
        def within(node)
          before = @job, @app
          name = file.text(node.children[0])
          @job = name if @workers.key?(name)
          @app = @definitions.app?(name)
          yield
        ensure
          @job, @app = before
        end

        # A class with `include Sidekiq::Job`.
        def job(node)
          name = file.text(node.children[0])
          return unless @workers.key?(name)

          included = Call.statements(node.children.last).filter_map { |statement| Call.of(statement) }.find do |call|
            call.name == "include" && file.constant(call.args.first)&.start_with?("Sidekiq::")
          end
          found(included.args.first, @sidekiq.included(name, file.constant(included.args.first))) if included
        end

        # OrdersConsumer = Class.new(ApplicationConsumer) do
        def kind_of_block(call)
          name = "#{file.text(call.receiver)}.#{call.name}"
          return self.class.kind(file.constant(call.args.first), @parents) if name.delete_prefix("::") == "Class.new"

          BLOCKS[name]
        end

        # Returns the kind of consumer that a class is.
        def consumer(node)
          parent = file.constant(node.children[1]) or return
          kind = self.class.kind(parent, @parents)
          row = USAGES[parent]
          file.found(node, row.kind, "class #{file.text(node.children[0])} < #{row.pelton}", row.note) if kind && row
          kind
        end

        def definition(node, kind, name)
          row = { karafka: CONSUMER_METHODS, racecar: RACECAR_METHODS }[kind]&.[](name)
          found(node, row) if row
        end

        def use(call, kind, method)
          owner = file.constant(call.receiver)
          @subscribers.block(call, Call.literal(call.args.first)) if owner == "Pelton" && call.name == "subscribe"
          row = @transactions.row(call, consumer: kind == :karafka)
          return on_constant(call, owner) if owner && row.nil?

          row ||= @sidekiq.by(call, @job) || symbol_as_topic(call) || general(call)
          row ||= kind ? inside(call, kind, method) : outside(call, method)
          found(call.node, row) if row
        end

        def on_constant(call, owner)
          if @definitions.producers.include?(owner) && (row = on_producer(call)) then return found(call.node, row) end
          if @workers.key?(owner) && (row = @sidekiq.on(call, owner)) then return found(call.node, row) end

          name = "#{owner}.#{call.name}"
          row = row_of(name)
          return found(call.node, row) if row

          file.found(call.node, :unknown, nil, "look it up, and move it by hand") if foreign?(name)
        end

        # produce_async(topic: :orders)
        def symbol_as_topic(call)
          return unless TransactionCalls.symbol_as_topic?(call)

          owner = call.receiver ? "" : "producer."
          Migrate.differs("#{owner}#{call.name}(topic: \"…\")", "the topic is a String: a Symbol raises an error")
        end

        # What means the same in every class.
        def general(call)
          receiver = call.receiver && file.text(call.receiver)
          receiver = receiver.sub(Definitions::MONITOR, "Karafka.monitor") if receiver && @app
          case receiver
          when nil then by_name(call)
          when "karafka" then in_spec(call)
          when /\.monitor\z/ then monitor(call, receiver.delete_suffix(".monitor"))
          when /\.middleware\z/ then middleware(call, receiver.delete_suffix(".middleware"))
          when /\.monitor\.notifications_bus\z/ then @calls.register_event(call) if call.name == "register_event"
          when /\bproducer\z/i then on_producer(call, sure: receiver.start_with?("Karafka."))
          else call.name == "queue_adapter=" ? ADAPTERS[Call.literal(call.args.first).to_s] : on_rdkafka(call)
          end
        end

        # producer.produce(…).wait
        def on_rdkafka(call)
          RDKAFKA_CALLS[call.name == "wait" ? "#{Call.of(call.receiver)&.name}.wait" : call.name]
        end

        def by_name(call)
          case call.name
          when "gem" then GEMS[Call.literal(call.args.first)]
          when "karafka_options" then OPTIONS
          when "sidekiq_options" then @sidekiq.options(call)
          else SIDEKIQ_WORDS[call.name]
          end
        end

        # Of Karafka or of a producer; other libraries have monitors, too.
        def monitor(call, owner)
          producer = @definitions.producer?(owner)
          name = owner.delete_prefix("::")
          return unless producer || %w[Karafka KarafkaApp].include?(name) || @definitions.app?(name)

          case call.name
          when "subscribe" then subscribe(call, producer)
          when "instrument" then @calls.instrument(call)
          when "unsubscribe" then UNSUBSCRIBE
          end
        end

        # Karafka.producer.middleware.append(…)
        def middleware(call, owner)
          own = @definitions.producers.include?(owner)
          @calls.middleware(call, own: own) if own || owner.match?(TransactionCalls::KARAFKA)
        end

        def subscribe(call, producer)
          to, = (producer ? PRODUCER_EVENTS : EVENTS)[Call.literal(call.args.first)]
          @subscribers.block(call, to) if to
          @calls.subscribe(call, producer: producer)
        end

        def in_spec(call) = call.name == "consumer_for" ? @calls.consumer_for(call) : SPEC_CALLS[call.name]

        # sure: it is a producer, so a method that Pelton's does not have is unknown.
        def on_producer(call, sure: true)
          return @calls.variant(call) if VARIANTS.include?(call.name)

          PRODUCER_CALLS[call.name] || (no_method(call) if sure && !Producer.method_defined?(call.name))
        end

        def no_method(call) = Row.new(:unknown, nil, "Pelton::Producer has no method #{call.name}")

        def inside(call, kind, method)
          return kind[call.name] if kind.is_a?(Hash)
          return (call.receiver ? RACECAR_MESSAGE_CALLS : RACECAR_CALLS)[call.name] if kind == :racecar
          return MESSAGE_CALLS[call.name] || @calls.topic(call) if call.receiver

          case call.name
          when "pause", "seek" then @calls.public_send(call.name, call)
          when "messages" then (NO_MESSAGES if HOOKS.include?(method))
          when "mark_as_consumed", "mark_as_consumed!" then @calls.mark(call)
          else by_consumer(call, method)
          end
        end

        def by_consumer(call, method)
          CONSUMER_CALLS[call.name] || (unknown(call) if method && !known?(call.name))
        end

        # A deserializer has a method `call` and gets a message.
        def outside(call, method)
          return unless method == "call" && call.name == "metadata" && call.receiver

          MESSAGE_CALLS["metadata"] if file.text(call.receiver) == "message"
        end

        def known?(name)
          Consumer.method_defined?(name) || Object.private_method_defined?(name) || @defined.call(name)
        end

        def unknown(call)
          Row.new(:unknown, nil, "no method of Pelton::Consumer, and no file here defines #{call.name}")
        end

        def constants(node)
          name = file.constant(node) or return
          row = row_of(name)
          return found(node, row) if row

          file.found(node, :unknown, nil, "look it up, and move it by hand") if foreign?(name)
        end

        # The row of the longest name that the name begins with.
        def row_of(name)
          rows = name.start_with?("Sidekiq") ? SIDEKIQ : USAGES
          prefixes = rows.keys.select { |prefix| name == prefix || name.start_with?("#{prefix}::", "#{prefix}.") }
          rows[prefixes.max_by(&:size)]
        end

        def foreign?(name) = FOREIGN.include?(name[/\A\w+/])
        def found(node, row) = file.found(node, row.kind, row.pelton, row.note)
      end
    end
  end
end
