# frozen_string_literal: true

require_relative "errors"
require_relative "events"
require_relative "printable"
require_relative "threads"

module Pelton
  # The bus of an app: code emits events, reporters listen. Publishing calls the listeners in the publishing thread, one
  # after the other; a listener that raises is reported as error.occurred and disturbs nobody. Costs one Hash look-up
  # where nobody listens.
  class Notifications
    CONTAINED = [StandardError, ScriptError, NoMemoryError, SystemStackError, SystemExit].freeze

    def initialize
      # Who listens: {"error.occurred" => [callable, …]}. Replaced as a whole under @lock, read without it.
      @listeners = {}.freeze
      # {"statistics.emitted" => why nobody can subscribe to it any more}. Guarded by @lock.
      @refused = {}
      @lock = Mutex.new
    end

    # By name with a block, or an object with methods like on_error_occurred(event). Returns what `unsubscribe` takes.
    #   bus.subscribe("error.occurred") { |event| warn event[:error] }
    # From any thread, at any time (to statistics.emitted: before the first client opens); raises ConfigError for an
    # event that does not exist.
    #: (String | Symbol | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block)
      return add(Events.fetch(subject).name => block) if block
      raise ConfigError.new("subscribe", subject, "a block is missing") if [String, Symbol].include?(subject.class)

      add(callbacks(subject), subject)
    end

    # Takes the block or object back that `subscribe` returned.
    #: (Object) -> void
    def unsubscribe(listener)
      @lock.synchronize do
        kept = @listeners.transform_values { |list| list.reject { |owner, _| owner.equal?(listener) }.freeze }
        @listeners = kept.reject { |_, list| list.empty? }.freeze
      end
    end

    # Is it worth while to build this event's payload?
    #: (String) -> bool
    def wanted?(name) = @listeners.key?(name)

    # Does an object listen that writes the failures to a log?
    #: () -> bool
    def logs_failures?
      @listeners.fetch("error.occurred", []).any? do |owner, _|
        owner.respond_to?(:logs_failures?) && owner.logs_failures?
      end
    end

    # Whether somebody wants this event, decided for good: if nobody does, a later subscription raises ConfigError with
    # this reason.
    #: (String, String) -> bool
    def decide(name, reason)
      @lock.synchronize do
        next true if @listeners.key?(name)

        @refused[name] = reason
        false
      end
    end

    # Tells everybody who subscribed to it. Never raises what a listener raises.
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
      raise ConfigError.new("subscribe", object.class, "has no method on_<event>") if found.empty?

      found.to_h { |name| [known[name], object.method(name)] }
    end

    def deliver(callback, event)
      Threads.interruptible { callback.call(event) }
    rescue *CONTAINED => e
      report(e, event.name)
    end

    # To whom else could be told that telling failed? To nobody, where stderr is closed or the error's message raises.
    def report(error, name)
      return publish("error.occurred", error: error, source: "subscriber of #{name}") unless name == "error.occurred"

      warn("pelton: a subscriber of error.occurred raised #{error.class}: #{Printable.line(error.message)}")
    rescue *CONTAINED
      nil
    end
  end
end
