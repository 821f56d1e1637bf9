# frozen_string_literal: true

require_relative "../../events"
require_relative "call"
require_relative "call_rows"
require_relative "event_rows"

module Pelton
  class CLI
    module Migrate
      # Reports what the subscribers of events do with them: methods such as on_consumer_consumed of a listener, and
      # blocks of `subscribe`. Their classes need not name Karafka.
      class Subscribers
        THEIRS = [*EVENTS.keys, *PRODUCER_EVENTS.keys].uniq.to_h { |name| [Events.method_name(name).to_s, name] }.freeze
        OURS = Events::TABLE.keys.to_h { |name| [Events.method_name(name).to_s, name] }.freeze
        # Files that define such a method, or subscribe a block, are parsed.
        WORDS = /\bdef\s+(?:#{Regexp.union(THEIRS.keys)})\b|\bPelton\.subscribe\b/
        NO_EVENT = "no such event, and Pelton.subscribe refuses the method: docs/reference/events.md"
        OF_ALL = "also comes from producers, where event[:group] is nil and lags are -1"
        AFTER_FAILURES = "also comes after a failure, Karafka's only after a success"
        # Other events of Karafka's, not those of the app's own.
        FAMILIES = /\Aon_(app|client|connection|consumer|filtering|process|rebalance|swarm|worker)_/
        private_constant :THEIRS, :OURS, :FAMILIES, :NO_EVENT, :OF_ALL, :AFTER_FAILURES

        # true: the code has a subscriber of events.
        #: (String) -> bool
        def self.in?(text) = text.match?(WORDS)

        # listeners: {"DeliveryListener" => [:producer]}, see Definitions.
        #: (CodeFile, Hash[String, Array[Symbol]]) -> void
        def initialize(file, listeners)
          @file = file
          @listeners = listeners
        end

        # The methods of a class, if one of them is for an event of Karafka's.
        #: (Node) -> void
        def listener(node)
          methods = Call.statements(node.children.last).select { |statement| statement.is?(:def) }
          methods = methods.to_h { |method| [method.children.first.token, method] }
          return unless methods.each_key.any? { |name| THEIRS.key?(name) }

          monitors = @listeners.fetch(@file.text(node.children[0]).split("::").last, [])
          methods.each { |name, method| definition(name, method, monitors) if name.start_with?("on_") }
        end

        # A call of `subscribe` with a block. name: ours.
        #: (Call, String) -> void
        def block(call, name)
          values(call.block, Call.parameters(call.block).first, name)
        end

        private

        # monitors: what the listener listens to, :karafka and :producer; [] if the code does not show it.
        def definition(name, method, monitors)
          tables = monitors == [:producer] ? [PRODUCER_EVENTS, EVENTS] : [EVENTS, PRODUCER_EVENTS]
          to, note = tables.filter_map { |table| table[THEIRS[name]] }.first
          to ||= OURS[name]
          return (report(method, Migrate.none(NO_EVENT)) if name.match?(FAMILIES)) unless to

          ours = Events.method_name(to).to_s
          row = Migrate.differs("def #{ours}(event)", [*note, CallRows::FIELDS].join("; "))
          report(method, row) unless ours == name
          beside(method, THEIRS[name], to) if monitors.size == 2
          values(method, Call.parameters(method).first, to)
        end

        # The listener gets events of producers, too, and one of them has another name there.
        def beside(method, theirs, name)
          to, note = PRODUCER_EVENTS[theirs]
          return if to.nil? || to == name

          code = "def #{Events.method_name(to)}(event)"
          report(method, Migrate.differs(code, ["a second method, for producers", *note, CallRows::FIELDS].join("; ")))
        end

        # Reports values that the event does not have. variable: the event in this code.
        def values(node, variable, name)
          return unless node && variable && (kind = Events::TABLE[name])

          foreign = []
          node.each_node do |part|
            key = key(part, variable)
            foreign << [part, key] if key && !kind.keys.include?(key)
          end
          foreign.each { |part, key| report(part, value(key, kind)) }
          text = @file.text(node)
          # A method without such values has been moved.
          failures(node, text) if name == "consumer.consumed" && foreign.any?
          lags(node) if name == "statistics.emitted" && text.include?("lag") && !text.match?(/:group\b|["']type["']/)
        end

        def lags(node)
          report(node, Migrate.differs("#{node.is?(:def) ? "return" : "next"} unless event[:group]", OF_ALL))
        end

        # Of a block, the row of `subscribe` says it.
        def failures(node, text)
          return if !node.is?(:def) || text.match?(/:error\b/)

          report(node, Migrate.differs("return if event[:error]", AFTER_FAILURES))
        end

        # event[:caller] → :caller
        def key(node, variable)
          return unless node.is?(:aref) && [variable, "#{variable}.payload"].include?(@file.text(node.children[0]))

          key = Call.literal(node.children[1]&.nodes&.first)
          key if key.is_a?(Symbol)
        end

        def value(key, kind)
          note = "#{kind.name} has #{kind.keys.join(", ")}"
          code = EVENT_VALUES[key.to_s]
          code = nil unless code && (code.scan(/\w+(?=\])/) - kind.keys.map(&:to_s)).empty?
          code ? Migrate.differs(code, note) : Migrate.none(note)
        end

        def report(node, row) = @file.found(node, row.kind, row.pelton, row.note)
      end
    end
  end
end
