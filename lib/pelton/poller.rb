# frozen_string_literal: true

require_relative "errors"
require_relative "runtime/event_dispatch"
require_relative "settings/settings"

module Pelton
  # A native thread that drains clients: delivery reports, fetched messages, events. All apps share one. A poller of its
  # own keeps an app apart from the load of others. Most applications need none.
  #   config.polling.poller = Pelton::Poller.new("payments")
  # The thread starts with the poller's first client, ends with the last, and starts again. It is named after the poller
  # (Linux shows 15 characters, for example in `top -H`). One Ruby thread per poller, "pelton.events.payments",
  # publishes the events of its clients. So a slow subscriber delays neither deliveries nor events of other pollers.
  #
  # All methods are callable from every thread, and any number of apps may share a poller. A forked child has threads of
  # its own.
  class Poller
    NAME = Settings::Setting.new("Poller.new", :name, nil, "")
    LOCK = Mutex.new
    # The pollers that apps share: {native module => its poller}. Guarded by LOCK.
    SHARED = {} # rubocop:disable Style/MutableConstant
    SHARED_NAME = "pelton.poll"
    private_constant :NAME, :LOCK, :SHARED, :SHARED_NAME

    # The poller of every app without its own. Its threads are "pelton.poll" and "pelton.events".
    #   Pelton::Poller.shared.running? # => true
    #: (?Module?) -> Poller
    def self.shared(native = nil)
      native ||= Native
      LOCK.synchronize { SHARED[native] ||= new(SHARED_NAME, native: native) { native::Poller.shared } }
    end

    #: () -> String
    def self.next_name = LOCK.synchronize { "#{SHARED_NAME}.#{@made = (@made || 0) + 1}" }
    private_class_method :next_name

    # The poller's name; without one "pelton.poll.1", "pelton.poll.2" …
    #   Pelton::Poller.new("payments").name # => "payments"
    #: () -> String
    attr_reader :name

    # name: of its threads. Raises ConfigError for a name with other characters than a-z A-Z 0-9 . _ -
    #   Pelton::Poller.new("payments")
    #: (?String?, ?native: Module?) ?{ () -> untyped } -> void
    def initialize(name = nil, native: nil, &open)
      @name = NAME.check(name) || self.class.send(:next_name)
      @open = open || -> { (native || Native)::Poller.new(@name) }
      @lock = Mutex.new
      # The native poller; process @pid makes it when it is needed. Set under @lock.
      @native = nil
      @pid = nil
      @dispatch = EventDispatch.new(self, events_thread, native)
    end

    # Number of clients that it drains in this process.
    #   Pelton::Poller.shared.clients # => 2
    #: () -> Integer
    def clients = known&.clients || 0

    # Does its native thread run in this process?
    #   Pelton::Poller.shared.running? # => true
    #: () -> bool
    def running? = known&.running? || false

    # For clients: what a native client needs to be drained by it.
    #: (Integer) -> Hash[Symbol, untyped]
    def polling(max_time) = { poller: native, max_time: max_time }

    # For clients: publishes the events of this client on this bus from now on. buffer: a producer's, which is lost with
    # it. moves: a producer's (see Producer.new). group: a subscription's.
    #: (String, Notifications, ?Producer::Buffer?, ?moves: bool, ?group: String?) -> void
    def add(client, bus, buffer = nil, moves: false, group: nil)
      @dispatch.add(client, bus, buffer, moves: moves, group: group)
    end

    # For clients: the client is closed. Its last events are still published.
    #: (String) -> void
    def remove(client) = @dispatch.remove(client)

    # For the thread that publishes: up to `limit` events, as [kind, client, fact, …, seconds since it was emitted].
    #: (Numeric?, Integer) -> Array[Array[untyped]]
    def next_events(timeout, limit) = native.next_events(timeout, limit)

    # For Labels: number of events that its clients emitted in this process.
    #: () -> Integer
    def emitted = native.told

    # For the end of the process: waits until its clients' events are published, up to `seconds`.
    #: (Numeric) -> void
    def settle(seconds) = @dispatch.settle(seconds)

    # For producers: the labels of messages whose events it publishes.
    #: () -> Labels
    def labels = @dispatch.labels

    # For the thread that publishes: ends the running `next_events`, or the next one, without an event.
    #: () -> void
    def wake = native.wake

    # Takes no lock and does not wait.
    def inspect
      count = clients
      "#<#{self.class} #{@name}, #{count} client#{"s" unless count == 1}, #{running? ? "running" : "idle"}>"
    end

    private

    # "pelton.events", "pelton.events.1", "pelton.events.payments"
    def events_thread
      own, number = @name.split(/\A#{Regexp.escape(SHARED_NAME)}(?:\.|\z)/, 2)
      ["pelton.events", *[own, number].compact.reject(&:empty?)].join(".")
    end

    # The native poller if this process made it.
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
