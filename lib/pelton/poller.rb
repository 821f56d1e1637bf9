# frozen_string_literal: true

require_relative "errors"
require_relative "event_dispatch"
require_relative "settings"

module Pelton
  # A native thread that drains clients: delivery reports, fetched messages, events. All apps share one; a poller of its
  # own keeps a client apart from the floods of others.
  #   config.polling.poller = Pelton::Poller.new("payments")
  # The thread starts with the poller's first client, ends with the last, and starts again. It has the poller's name
  # (Linux shows 15 letters of it, as in `top -H`). What its clients tell is published by one Ruby thread a poller,
  # "pelton.events.payments": a slow subscriber delays neither deliveries nor the events of other pollers. Usable
  # from any thread, by any number of apps, and after a fork: the child's has a thread of its own.
  class Poller
    NAME = Settings::Setting.new("Poller.new", :name, nil, "")
    LOCK = Mutex.new
    # The pollers that apps share: {native module => its poller}. Guarded by LOCK.
    SHARED = {} # rubocop:disable Style/MutableConstant
    SHARED_NAME = "pelton.poll"
    private_constant :NAME, :LOCK, :SHARED, :SHARED_NAME

    # Of every app that names no other; its threads are "pelton.poll" and "pelton.events".
    #: (?Module?) -> Poller
    def self.shared(native = nil)
      native ||= Native
      LOCK.synchronize { SHARED[native] ||= new(SHARED_NAME, native: native) { native::Poller.shared } }
    end

    #: () -> String
    def self.next_name = LOCK.synchronize { "#{SHARED_NAME}.#{@made = (@made || 0) + 1}" }
    private_class_method :next_name

    # "payments", or by itself "pelton.poll.1", "pelton.poll.2" …
    #: () -> String
    attr_reader :name

    # Raises ConfigError for a name that is not made of a-z A-Z 0-9 . _ -
    #: (?String?, ?native: Module?) ?{ () -> untyped } -> void
    def initialize(name = nil, native: nil, &open)
      @name = NAME.check(name) || self.class.send(:next_name)
      @open = open || -> { (native || Native)::Poller.new(@name) }
      @lock = Mutex.new
      # The native poller, made when it is needed by the process with this id. Set under @lock.
      @native = nil
      @pid = nil
      @dispatch = EventDispatch.new(self, events_thread, native)
    end

    # Clients that it drains in this process.
    #: () -> Integer
    def clients = known&.clients || 0

    # Whether its native thread is alive in this process.
    #: () -> bool
    def running? = known&.running? || false

    # What a native client needs to be drained by it.
    #: (Integer) -> Hash[Symbol, untyped]
    def polling(max_time) = { poller: native, max_time: max_time }

    # From now on events of this client are published on this bus. buffer: a producer's, lost with it.
    #: (String, Notifications, ?Producer::Buffer?) -> void
    def add(client, bus, buffer = nil) = @dispatch.add(client, bus, buffer)

    # The client is closed; what it said until now is still published.
    #: (String) -> void
    def remove(client) = @dispatch.remove(client)

    # For the thread that publishes: up to `limit` events, as [kind, client, fact, …, seconds since it was emitted].
    #: (Numeric?, Integer) -> Array[Array[untyped]]
    def next_events(timeout, limit) = native.next_events(timeout, limit)

    # How many events its clients emitted in this process so far.
    #: () -> Integer
    def told = native.told

    # Waits until what its clients emitted so far is published, `seconds` at most.
    #: (Numeric) -> void
    def settle(seconds) = @dispatch.settle(seconds)

    # For producers: of the messages whose events it tells.
    #: () -> Labels
    def labels = @dispatch.labels

    # Ends the running `next_events`, or the next one, without an event.
    #: () -> void
    def wake = native.wake

    # Takes no lock, waits for nobody.
    def inspect
      count = clients
      "#<#{self.class} #{@name}, #{count} client#{"s" unless count == 1}, #{running? ? "running" : "at rest"}>"
    end

    private

    # "pelton.events", "pelton.events.1", "pelton.events.payments"
    def events_thread
      own, number = @name.split(/\A#{Regexp.escape(SHARED_NAME)}(?:\.|\z)/, 2)
      ["pelton.events", *[own, number].compact.reject(&:empty?)].join(".")
    end

    # The native poller, if this process made it.
    def known = (@native if @pid == Process.pid)

    def native
      @lock.synchronize do
        next @native if @pid == Process.pid

        @native = @open.call
        @pid = Process.pid
        @native
      end
    end
  end
end
