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

    def initialize
      # {"error.occurred" => [[owner, callable], …]}. Replaced as a whole under @lock, read without it.
      @listeners = {}.freeze
      # {"statistics.emitted" => the reason why it is too late to subscribe}. Guarded by @lock.
      @refused = {}
      @lock = Mutex.new
    end

    # Subscribes a block to one event, or an object to all events that it has a method for, as on_error_occurred(event).
    # Returns the block or object, for `unsubscribe`.
    #   bus.subscribe("error.occurred") { |event| warn event[:error] }
    # From any thread, at any time; statistics.emitted, message.acknowledged and message.purged only before the first
    # client opens. Raises ConfigError for an unknown event, or when it is too late.
    #: (String | Symbol | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block)
      return add(Events.fetch(subject).name => block) if block
      raise ConfigError.new("subscribe", subject, "a block is missing") if [String, Symbol].include?(subject.class)

      add(callbacks(subject), subject)
    end

    # Removes a subscriber: the block or object that `subscribe` returned. From any thread.
    #   bus.unsubscribe(metrics)
    #: (Object) -> void
    def unsubscribe(listener)
      @lock.synchronize do
        kept = @listeners.transform_values { |list| list.reject { |owner, _| owner.equal?(listener) }.freeze }
        @listeners = kept.reject { |_, list| list.empty? }.freeze
      end
    end

    # true: the event has a subscriber, so its payload is worth building.
    #: (String) -> bool
    def wanted?(name) = @listeners.key?(name)

    # true: a subscriber writes failures to a log.
    #: () -> bool
    def logs_failures?
      @listeners.fetch("error.occurred", []).any? do |owner, _|
        owner.respond_to?(:logs_failures?) && owner.logs_failures?
      end
    end

    # true: the event has a subscriber. If not, a later subscription to it raises ConfigError with this reason.
    #: (String, String) -> bool
    def decide(name, reason)
      @lock.synchronize do
        next true if @listeners.key?(name)

        @refused[name] = reason
        false
      end
    end

    # Calls the subscribers of an event. Never raises an error of a subscriber.
    #   bus.publish("workers.scaled", from: 5, to: 20)
    #: (String, **untyped) -> void
    def publish(name, **payload)
      listeners = @listeners[name]
      return Events.fetch(name) && nil unless listeners

      event = Events::Event.new(name, payload.freeze).freeze
      listeners.each { |_, callback| deliver(callback, event) }
      nil
    end

    def inspect = "#<#{self.class} #{@listeners.transform_values(&:size)}>"

    private

    def add(callbacks, owner = callbacks.each_value.first)
      @lock.synchronize do
        callbacks.each_key { |name| raise ConfigError.new("subscribe", name, @refused[name]) if @refused.key?(name) }
        added = callbacks.transform_values { |callback| [[owner, callback].freeze] }
        @listeners = @listeners.merge(added) { |_, old, new| (old + new).freeze }.freeze
      end
      owner
    end

    def callbacks(object)
      known = Events::TABLE.keys.to_h { |name| [Events.method_name(name), name] }
      found = object.public_methods.grep(/\Aon_/)
      found.each { |name| raise ConfigError.unknown(name, known.keys, what: "event method") unless known.key?(name) }
      raise ConfigError.new("subscribe", object.class, "has no method such as on_error_occurred") if found.empty?

      found.to_h { |name| [known[name], object.method(name)] }
    end

    def deliver(callback, event)
      Threads.interruptible { callback.call(event) }
    rescue *CONTAINED => e
      report(e, event.name)
    end

    # A failed subscriber of error.occurred is reported to stderr; not at all if stderr is closed or the message raises.
    def report(error, name)
      return publish("error.occurred", error: error, source: "subscriber of #{name}") unless name == "error.occurred"

      warn("pelton: a subscriber of error.occurred raised #{error.class}: #{Printable.line(error.message)}")
    rescue *CONTAINED
      nil
    end
  end
end
