# frozen_string_literal: true

require_relative "../errors"
require_relative "../events"
require_relative "../logging/printable"
require_relative "threads"

module Pelton
  # The events of an app: code publishes them, subscribers get them. The publishing thread calls the subscribers, one
  # after the other. A subscriber that raises is reported as error.occurred; the others are still called. An event
  # without subscribers costs one Hash look-up. Thread-safe.
  class Notifications
    CONTAINED = [StandardError, ScriptError, NoMemoryError, SystemStackError, SystemExit].freeze

    # Events that cost time also where no subscriber runs, so that a pattern does not switch them on.
    COSTLY = %w[statistics.emitted broker.changed message.produced message.acknowledged message.purged].freeze
    # Events about calls into consumers.
    CALLS = %w[consumer.consuming consumer.consumed consumer.assigned consumer.ticked consumer.reached_end
               consumer.revoked consumer.shut_down job.finished].freeze
    NAMES = [String, Symbol, Regexp].freeze
    FORM = "expected words with dots between them, as \"orders.paid\""
    UNMATCHED = "matches no event; name those that cost time yourself: #{COSTLY.join(", ")}".freeze
    UNDEFINED = "is not defined: call define_event first"
    PELTONS = "is one of Pelton's events: choose another name"
    ONLY_PELTON = "is one of Pelton's events, which only Pelton publishes. In a test, cause the event, or call the " \
                  "subscriber with Pelton::Events::Event.new(name, payload)"
    private_constant :NAMES, :FORM, :UNMATCHED, :UNDEFINED, :PELTONS, :ONLY_PELTON

    def initialize
      # {"error.occurred" => [[owner, callable], …]}. Replaced as a whole under @lock, read without it.
      @listeners = {}.freeze
      # {"statistics.emitted" => the reason why it is too late to subscribe}. Guarded by @lock.
      @refused = {}
      # {"orders.paid" => Events::Kind}, of `define`. Replaced as a whole under @lock, read without it.
      @own = {}.freeze
      # [[/\Apartition\./, block], …]. Guarded by @lock.
      @patterns = []
      @calls = @call_events = false
      @counters = [].freeze
      @lock = Mutex.new
    end

    # Subscribes a block to one event, to those whose names match a Regexp, or to :all; or an object to all events that
    # it has a method for, as on_error_occurred(event). Returns the block or object, for `unsubscribe`.
    #   bus.subscribe("error.occurred") { |event| warn event[:error] }
    #   bus.subscribe(/\Apartition\./) { |event| puts event.name }
    # A Regexp and :all include events that are defined later, but none of COSTLY. From any thread, at any time; those
    # of COSTLY only before the first client opens. Raises ConfigError for an unknown event, or when it is too late.
    #: (String | Symbol | Regexp | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block)
      subject = // if subject == :all && block
      raise ConfigError.new("subscribe", subject, "a block is missing") if !block && NAMES.include?(subject.class)
      return add(callbacks(subject), subject) unless block
      return add_pattern(subject, block) if subject.is_a?(Regexp)

      add(kind(subject).name => block)
    end

    # Adds an event of the app's own. values: what each value means. Raises ConfigError for a name that exists, or that
    # is not of the form "orders.paid".
    #   bus.define("orders.paid", order: "the order's id")
    #: (String, **String) -> Events::Kind
    def define(name, **values)
      @lock.synchronize do
        raise ConfigError.new("event", name, FORM) unless name.is_a?(String) && name.match?(/\A[a-z]\w*(\.[a-z]\w*)+\z/)

        raise ConfigError.new("event", name, PELTONS) if Events::TABLE.key?(name)
        raise ConfigError.new("event", name, "is defined already: choose another name") if @own.key?(name)

        kind = Events::Kind.new(name, values.keys.freeze, "An event of the app.", values.freeze).freeze
        @own = { **@own, name => kind }.freeze
        owners = @patterns.select { |pattern, _| pattern.match?(name) }.map { |_, block| [block, block].freeze }
        listen(@listeners.merge(name => owners.freeze)) unless owners.empty?
        kind
      end
    end

    # For the app's code: publishes an event that `define` added. Raises ConfigError for another event, and for values
    # that are missing or unknown.
    #: (String, **untyped) -> void
    def publish_own(name, **payload)
      kind = @own.fetch(name) do
        raise ConfigError.new("event", name, Events::TABLE.key?(name) ? ONLY_PELTON : UNDEFINED)
      end
      wrong = (payload.keys - kind.keys) + (kind.keys - payload.keys)
      raise ConfigError.new("event #{name}", payload, "has the values #{kind.keys.join(", ")}") unless wrong.empty?

      publish(name, **payload)
    end

    # Adds an object that has calls of consumers and produced messages counted natively, where an event for each would
    # cost too much. `unsubscribe` removes it. From any thread. It has these methods:
    #   calls({group: "billing", topic: "orders", partition: 0})  the Native::CallCounts of this partition's calls
    #   given({group: "billing", …}, 3)                           a call that runs got 3 more messages
    #   counted({group: "billing", …}, 3)                         the call ends: these of its messages were given before
    #   times("pelton.producer#1")                                the Native::SendTimes of a producer that opens
    #: (Object) -> void
    def add_counter(counter)
      @lock.synchronize do
        @counters = [*@counters, counter].freeze
        listen(@listeners)
      end
    end

    # Those of `add_counter`: a frozen Array, replaced as a whole.
    #: () -> Array[Object]
    attr_reader :counters

    # Removes a subscriber: the block or object that `subscribe` returned. From any thread.
    #   bus.unsubscribe(metrics)
    #: (Object) -> void
    def unsubscribe(listener)
      @lock.synchronize do
        @counters = @counters.reject { |counter| counter.equal?(listener) }.freeze
        kept = @listeners.transform_values { |list| list.reject { |owner, _| owner.equal?(listener) }.freeze }
        @patterns = @patterns.reject { |_, owner| owner.equal?(listener) }
        listen(kept.reject { |_, list| list.empty? })
      end
    end

    # true: the event has a subscriber, so its payload is worth building.
    #   bus.wanted?("consumer.consumed") # => false
    #: (String) -> bool
    def wanted?(name) = @listeners.key?(name)

    # call_events: one of CALLS has a subscriber. calls: so it is, or calls are counted. Asked for each job, so both are
    # known without a look-up.
    #: (calls: bool, call_events: bool)
    attr_reader :calls, :call_events

    # For Pelton: a subscriber writes failures to a log; with a logger: to the same place as this logger.
    #: (?untyped) -> bool
    def logs_failures?(logger = nil)
      @listeners.fetch("error.occurred", []).any? do |owner, _|
        owner.respond_to?(:logs_failures?) && owner.logs_failures?(logger)
      end
    end

    # For Pelton: the event has a subscriber. If not, a later subscription to it raises ConfigError with this reason.
    #: (String, String) -> bool
    def decide(name, reason)
      @lock.synchronize do
        next true if @listeners.key?(name)

        @refused[name] = reason
        false
      end
    end

    # Calls the subscribers of an event. Never raises an error of a subscriber. In a signal handler, a thread of its own
    # calls them soon after, because they could not take a lock there.
    #   bus.publish("workers.scaled", from: 5, to: 20)
    #: (String, **untyped) -> void
    def publish(name, **payload)
      listeners = @listeners[name]
      return kind(name) && nil unless listeners

      event = Events::Event.new(name, payload.freeze).freeze
      return call_all(listeners, event) unless Threads.trap?

      Threads.after_trap("pelton.events.trap") { call_all(listeners, event) }
    end

    def inspect = "#<#{self.class} #{@listeners.transform_values(&:size)}>"

    private

    # The kind of an event; raises ConfigError for a name that does not exist.
    def kind(name) = @own[name.to_s] || Events.fetch(name)

    # Under @lock.
    def listen(listeners)
      @call_events = CALLS.any? { |name| listeners.key?(name) }
      @calls = @call_events || @counters.any?
      @listeners = listeners.freeze
    end

    def add(callbacks, owner = callbacks.each_value.first)
      @lock.synchronize { merge(callbacks, owner) }
      owner
    end

    # Under @lock.
    def merge(callbacks, owner)
      callbacks.each_key { |name| raise ConfigError.new("subscribe", name, @refused[name]) if @refused.key?(name) }
      added = callbacks.transform_values { |callback| [[owner, callback].freeze].freeze }
      listen(@listeners.merge(added) { |_, old, new| (old + new).freeze })
    end

    def add_pattern(pattern, block)
      @lock.synchronize do
        matching = [*(Events::TABLE.keys - COSTLY), *@own.keys].grep(pattern)
        raise ConfigError.new("subscribe", pattern, UNMATCHED) if matching.empty?

        @patterns = [*@patterns, [pattern, block].freeze]
        merge(matching.to_h { |name| [name, block] }, block)
      end
      block
    end

    def callbacks(object)
      known = [*Events::TABLE.keys, *@own.keys].to_h { |name| [Events.method_name(name), name] }
      found = object.public_methods.grep(/\Aon_/)
      found.each { |name| raise ConfigError.unknown(name, known.keys, what: "event method") unless known.key?(name) }
      raise ConfigError.new("subscribe", object.class, "has no method such as on_error_occurred") if found.empty?

      found.to_h { |name| [known[name], object.method(name)] }
    end

    def call_all(listeners, event)
      listeners.each { |_, callback| deliver(callback, event) }
      nil
    end

    def deliver(callback, event)
      Threads.interruptible { callback.call(event) }
    rescue *CONTAINED => e
      report(e, event.name)
    end

    # A failed subscriber of error.occurred is reported to stderr, also where Ruby's warnings are off and `warn` is
    # silent; not at all if stderr is closed or the message raises.
    def report(error, name)
      return publish("error.occurred", error: error, source: "subscriber of #{name}") unless name == "error.occurred"

      text = "raised #{error.class}: #{Printable.line(Printable.message(error))}"
      $stderr.write("pelton: a subscriber of error.occurred #{text}\n")
    rescue *CONTAINED
      nil
    end
  end
end
