# frozen_string_literal: true

require_relative "../runtime/notifications"

module Pelton
  class App
    # Subscribes a block to an event, to those whose names match a Regexp, or to :all; or an object to all events that
    # it has a method for, as on_error_occurred(event). Returns the block or object, for `unsubscribe`. Raises
    # ConfigError for an unknown event. A Regexp and :all leave out the events of Notifications::COSTLY: name these.
    #   app.subscribe("error.occurred") { |event| warn event[:error].message }
    #   app.subscribe(/\A(partition|rebalance)\./) { |event| puts event.name }
    # The thread that publishes calls the block. See Notifications#subscribe.
    #: (String | Symbol | Regexp | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block) = @notifications.subscribe(subject, &block)

    # Removes a subscriber: the block or object that `subscribe` returned. Does nothing for another object.
    #   app.unsubscribe(metrics)
    #: (Object) -> void
    def unsubscribe(listener) = @notifications.unsubscribe(listener)

    # Adds an event of your own, which `publish` publishes and `subscribe` knows. values: what each value means. Returns
    # its kind. Raises ConfigError for a name that exists, or that has no dot between words.
    #   app.define_event("orders.paid", order: "the order's id")
    #: (String, **String) -> Events::Kind
    def define_event(name, **values) = @notifications.define(name, **values)

    # Publishes an event that `define_event` added, on this thread; in a signal handler, on another one soon after.
    # Subscribers that raise are reported as error.occurred. Raises ConfigError for another event, or if a value is
    # missing or unknown.
    #   app.publish("orders.paid", order: 7)
    #: (String, **untyped) -> void
    def publish(name, **payload) = @notifications.publish_own(name, **payload)
  end
end
