# frozen_string_literal: true

require_relative "call"

module Pelton
  class CLI
    module Migrate
      # The options of librdkafka that a block of settings gives to `kafka`, as far as its code shows them.
      #   options = KafkaOptions.new(file, "config").read(block)
      #   options.values("bootstrap.servers") # => ["a:9092"]
      class KafkaOptions
        SERVERS = "bootstrap.servers"
        # Names of one option.
        ALIASES = { "metadata.broker.list" => SERVERS, "delivery.timeout.ms" => "message.timeout.ms",
                    "request.required.acks" => "acks", "compression.type" => "compression.codec" }.freeze
        private_constant :SERVERS, :ALIASES

        # variable: the name of the block's parameter.
        #: (CodeFile, String) -> void
        def initialize(file, variable)
          @file = file
          @variable = variable
          # {"acks" => ["1"]}; an option has several values if conditions choose one.
          @values = Hash.new { |values, name| values[name] = [] }
          # Code that is no literal Hash: ["OPTIONS", "defaults"]
          @others = []
        end

        # Code whose options are not known: ["OPTIONS"]
        #: Array[String]
        attr_reader :others

        # Reads a block, but not that of a producer within it.
        #: (Node?) -> self
        def read(node)
          call = Call.of(node) if node
          return self if node.nil? || call&.name == "producer="

          call(call) if call
          node.nodes.each { |part| read(part) }
          self
        end

        # Adds what another block gives.
        #: (KafkaOptions) -> self
        def add(options)
          options.each { |name, values| put(name, values) }
          @others |= options.others
          self
        end

        #: (String, Array[String]) -> void
        def put(name, values) = @values[ALIASES.fetch(name, name)] |= values

        # Yields names and values: "acks", ["1"].
        #: () { (String, Array[String]) -> void } -> void
        def each(&block) = @values.each(&block)

        # The values of an option, as `text` writes them.
        #: (String) -> Array[String]
        def values(name) = @values.fetch(ALIASES.fetch(name, name), [])

        #: (String) -> bool
        def given?(name) = values(name).any? || @others.any? { |code| code.include?(name) }

        #: (String) -> bool
        def self.servers?(name) = ALIASES.fetch(name, name) == SERVERS

        # true: the other block names other servers.
        #: (KafkaOptions) -> bool
        def other_cluster?(options)
          servers = [values(SERVERS), options.values(SERVERS)].map(&:sort)
          servers.none?(&:empty?) && servers.uniq.size == 2
        end

        private

        def call(call)
          receiver = call.receiver && @file.text(call.receiver)
          return code(call.args.last) if call.name == "kafka=" && receiver == @variable
          return unless receiver == "#{@variable}.kafka"

          case call.name
          when "[]=" then value(text(call.args.first), call.args.last)
          when "merge!", "update"
            call.args.each { |node| code(node) }
            pairs(call.keywords)
          end
        end

        def code(node) = node.is?(:hash) ? pairs(Call.pairs(node)) : @others |= [@file.text(node)]
        def pairs(hash) = hash.each { |name, node| name == "**" ? code(node) : value(name, node) }
        def value(name, node) = put(name, [text(node)])

        # Equal values have the same text: 1_000 and "1000" are "1000".
        def text(node) = Call.literal(node, @file.text(node).tr("'", "\"")).to_s
      end
    end
  end
end
