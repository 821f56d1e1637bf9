# frozen_string_literal: true

require_relative "call"
require_relative "usages"

module Pelton
  class CLI
    module Migrate
      # The classes and producers that the files define, and that other files name.
      class Definitions
        PRODUCER = /\A(::)?WaterDrop::Producer\b/
        # In the class of Karafka's app: monitor.subscribe(…)
        MONITOR = /\A(self\.)?monitor\b/
        WORKERS = %w[Sidekiq::Job Sidekiq::Worker Sidekiq::IterableJob].freeze
        private_constant :WORKERS

        #: () -> void
        def initialize
          # {"OrdersConsumer" => "ApplicationConsumer"}
          @parents = {}
          # {"OrdersConsumer" => "app/orders_consumer.rb"}
          @homes = {}
          # [class, receiver] of each call of `transaction` in a class; the receiver is "" if there is none.
          @transactions = []
          @workers = {}
          @queues = ["default"]
          @sidekiq = false
          @producers = []
          # ["Karafka.producer", "DeliveryListener"]: the owner of a monitor, and the class of what subscribes to it.
          @subscriptions = []
          @racecar = []
        end

        # Superclasses: {"OrdersConsumer" => "ApplicationConsumer"}
        #: Hash[String, String]
        attr_reader :parents
        # Queues of jobs; constants and variables that are producers: ["KAFKA"]
        #: (queues: Array[String], producers: Array[String])
        attr_reader :queues, :producers
        # [file, class, Call, its `self.group_id` or nil] of each `subscribes_to`.
        #: Array[Array[untyped]]
        attr_reader :racecar

        # Sidekiq's classes, also those that inherit it, with their queues: {"ChargeJob" => "charges"}
        #: () -> Hash[String, String]
        def workers
          inherited = @parents.each_key.to_h { |name| [name, @workers.values_at(*ancestors(name)).compact.first] }
          { **inherited.compact, **@workers }
        end

        # true: Sidekiq runs the jobs of Active Job.
        #: () -> bool
        def sidekiq? = @sidekiq

        # Classes of listeners, without their modules, with what they listen to: {"DeliveryListener" => [:producer]}
        #: () -> Hash[String, Array[Symbol]]
        def listeners
          @subscriptions.each_with_object({}) do |(owner, name), found|
            found[name] = [*found[name], producer?(owner) ? :producer : :karafka].uniq
          end
        end

        # true: the code of a receiver is a producer.
        #: (String) -> bool
        def producer?(receiver) = @producers.include?(receiver) || receiver.match?(/\bproducer\z/i)

        # within: the modules around the node.
        #: (CodeFile, ?Node, ?Array[String]) -> void
        def read(file, node = file.root, within = [])
          if node.is?(:class, :module)
            within += [file.text(node.children[0])]
            klass(file, node, within) if node.is?(:class)
          elsif node.is?(:assign, :opassign) && file.text(node.children.last).match?(PRODUCER)
            @producers << file.text(node.children.first)
          elsif (call = Call.of(node))
            called(file, call, within.last)
          end
          node.nodes.each { |part| read(file, part, within) }
        end

        # Is it Karafka's app, or a subclass? A `setup` of another class is something else.
        #: (String?) -> bool
        def app?(name)
          20.times { break if name.nil? || name == "Karafka::App" || (name = @parents[name]).nil? }
          name == "Karafka::App"
        end

        # true: a class or one of its superclasses calls `transaction`.
        #: (String) -> bool
        def transaction?(name)
          classes = [name, *ancestors(name)]
          @transactions.any? { |owner, receiver| classes.include?(owner) && (receiver.empty? || producer?(receiver)) }
        end

        # Files that define consumers, base classes first: ["app/consumers/application_consumer"]
        #: () -> Array[String]
        def consumers
          found = @parents.keys.select { |name| Usages.kind(@parents[name], @parents) }
          found.sort_by { |name| ancestors(name).size }.map { |name| @homes[name].delete_suffix(".rb") }.uniq
        end

        private

        # klass: the class around the call.
        def called(file, call, klass)
          case call.name
          when "queue_adapter=" then @sidekiq ||= Call.literal(call.args.first).to_s == "sidekiq"
          when "subscribe"
            receiver = file.text(call.receiver)
            subscription(file, call, app?(klass) ? receiver.sub(MONITOR, "Karafka.monitor") : receiver)
          end
        end

        # producer.monitor.subscribe(Listener.new(…)), or of a class
        def subscription(file, call, receiver)
          owner = receiver.delete_suffix(".monitor")
          made = Call.of(call.args.first) if call.args.first
          name = file.constant(made&.name == "new" ? made.receiver : call.args.first)
          @subscriptions |= [[owner, name.split("::").last]] if name && owner != receiver
        end

        # The superclasses of a class in the application, the nearest first.
        def ancestors(name)
          found = []
          found << name while found.size < 20 && (name = @parents[name])
          found
        end

        def klass(file, node, within)
          name, parent, body = node.children
          @parents[file.text(name)] = file.constant(parent).to_s if parent
          @homes[file.text(name)] ||= file.path
          body.each_node { |descendant| transaction(file, file.text(name), Call.of(descendant)) }
          words(file, file.text(name), within.join("::"), body)
        end

        def transaction(file, name, call)
          @transactions << [name, file.text(call.receiver)] if call&.name == "transaction"
        end

        # What the body of a class says of itself. path: its name with those of its modules.
        def words(file, name, path, body)
          calls = Call.statements(body).filter_map { |statement| Call.of(statement) }
          group = calls.find { |call| call.name == "group_id=" && file.text(call.receiver) == "self" }&.args&.first
          calls.reject(&:receiver).each do |call|
            case call.name
            when "subscribes_to" then @racecar << [file, path, call, Call.literal(group)]
            when "queue_as" then queue(call.args.first)
            when "include" then worker(name, calls) if WORKERS.include?(file.constant(call.args.first))
            end
          end
        end

        def worker(name, calls)
          options = calls.find { |call| call.name == "sidekiq_options" && call.receiver.nil? }
          @workers[name] = queue(options&.keywords&.fetch("queue", nil)) || "default"
        end

        # Returns its name; nil: it is no literal.
        def queue(node)
          name = Call.literal(node)&.to_s
          @queues |= [name] if name
          name
        end
      end
    end
  end
end
