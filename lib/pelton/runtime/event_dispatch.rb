# frozen_string_literal: true

require_relative "clock"
require_relative "event_delay"
require_relative "labels"
require_relative "oauth"
require_relative "../logging/repeat_limit"
require_relative "statistics"
require_relative "threads"

module Pelton
  # Publishes native events (logs, errors, statistics, failed deliveries) on the bus of the client they belong to. Each
  # poller has one Ruby thread for that. It starts with the first client and ends with the last one. A forked child
  # starts its own thread with its first client.
  class EventDispatch
    LOCK = Mutex.new
    # Most events taken from the native side at once, so that other Ruby threads run in between.
    BATCH = 1000
    # Seconds that a close waits, at most, for its last events to be published.
    CLOSE_WAIT = 0.5
    # librdkafka's logs about a producer that another one fenced.
    FENCED = /fenced by a newer instance|operation with an old epoch|newer producer with the same transactionalId/
    private_constant :LOCK, :BATCH, :CLOSE_WAIT, :FENCED

    # A name that no other client of this process has: "pelton.producer#1"
    #: (String) -> String
    def self.client_name(prefix) = LOCK.synchronize { "#{prefix}##{@clients = (@clients || 0) + 1}" }

    # Labels of messages whose events this process publishes. Set under @lock.
    #: () -> Labels
    attr_reader :labels

    # name: the thread's name. native: the native module; tests pass their own.
    #: (Poller, String, Module?) -> void
    def initialize(poller, name, native)
      @poller = poller
      @name = name
      @module = native
      @lock = Mutex.new
      # Client name => bus, of the clients that this process (@pid) opened. Guarded by @lock.
      @buses = {}
      # Client name => a producer's buffer. Guarded by @lock.
      @buffers = {}
      # Client name => a subscription's group; client name => true, of producers that may move. Guarded by @lock.
      @groups = {}
      @moving = {}
      # Names of closed clients. They are removed when their last events are published. Guarded by @lock.
      @gone = []
      @pid = nil
      @statistics = Statistics.new
      @labels = Labels.new(poller)
      # The thread that publishes. It sets this to nil itself when all clients are gone. Guarded by @lock.
      @thread = nil
      # true while a thread waits in `settle`.
      @settling = false
      # Signaled when clients were removed, or when events were published while a thread waits in `settle`.
      @forgotten = ConditionVariable.new
    end

    # Publishes events of this client on this bus from now on. buffer: a producer's buffer, whose messages are lost when
    # the producer is garbage collected. moves: see Producer.new. group: a subscription's.
    #: (String, Notifications, ?Producer::Buffer?, ?moves: bool, ?group: String?) -> void
    def add(client, bus, buffer = nil, moves: false, group: nil)
      uninterrupted do
        reset_after_fork unless @pid == Process.pid
        @buses[client] = bus
        @buffers[client] = buffer if buffer
        @groups[client] = group if group
        @moving[client] = true if moves
        @thread = Threads.start(@name) { run } unless @thread&.alive?
      end
    end

    # The client is closed; its events up to now are still published. The thread ends with the last client, and `remove`
    # waits for that. The wait has a limit, because a subscriber may be waiting for the thread that closes the client.
    #: (String) -> void
    def remove(client)
      thread = uninterrupted do
        next unless @pid == Process.pid # the parent's client

        @gone << client if @buses.key?(client) && !@gone.include?(client)
        # If a subscriber closed the client, this is the thread itself: it notices.
        next unless @thread&.alive? && @thread != Thread.current

        @poller.wake # also while other clients are open, so that this one is removed now, not with the next event
        @thread if all_gone?
      end
      return unless thread

      deadline = Clock.now + CLOSE_WAIT
      thread.join(Clock.left(deadline)) if forgotten?(client, deadline)
    end

    # Waits until all events emitted so far are published, up to `seconds`.
    #: (Numeric) -> void
    def settle(seconds)
      deadline = Clock.now + seconds
      @lock.synchronize do
        emitted = @poller.emitted
        while @thread&.alive? && @labels.count < emitted && (left = Clock.left(deadline)).positive?
          @settling = true
          @forgotten.wait(@lock, left)
        end
      end
    end

    private

    # Cannot be interrupted. An interrupt here could leave a client without a thread, or start two threads.
    def uninterrupted(&section) = Thread.handle_interrupt(Object => :never) { @lock.synchronize(&section) }

    # A forked child gets no events of its parent's clients and messages.
    def reset_after_fork
      [@buses, @buffers, @groups, @moving, @gone].each(&:clear)
      @statistics = Statistics.new
      @labels = Labels.new(@poller)
      @pid = Process.pid
    end

    def all_gone? = @buses.size == @gone.size

    # Waits until the client's last event is published. Returns true if the thread then ends, because there is no new
    # client.
    def forgotten?(client, deadline)
      @lock.synchronize do
        while @buses.key?(client)
          left = Clock.left(deadline)
          return false unless left.positive?

          @forgotten.wait(@lock, left)
        end
        @thread.nil?
      end
    end

    # events: those that a thread before this one left unpublished. The thread can only be killed while it waits, or in
    # a subscriber, which may call Thread.exit. The next thread publishes the events that were already taken.
    def run(delay = EventDelay.new(@poller.name), events = [])
      Thread.handle_interrupt(Object => :never) do
        publish_all(events, [], delay)
        while (gone = closed_clients)
          Thread.handle_interrupt(Object => :immediate) do
            events = @poller.next_events(gone.empty? ? due(delay) : 0, BATCH)
          end
          publish_all(events, gone, delay)
        end
        over = true
      ensure
        publish_rest(delay, events) if over || !replaced?(delay, events)
      end
    end

    # Seconds until a report is due that does not need an event.
    def due(delay) = [delay.due, RepeatLimit.due].compact.min

    # This thread was killed, so another one continues. Returns false if the uninterrupted process ends.
    def replaced?(delay, events)
      @lock.synchronize { @thread = Threads.start(@name) { run(delay, events) } }
    rescue ThreadError
      false
    end

    def publish_rest(delay, events)
      gone = @lock.synchronize { @gone.dup }
      publish_all(events, [], delay)
      nil until publish_all(@poller.next_events(0, BATCH), gone, delay)
      delay.report(last: true)
    end

    # The closed clients, or nil if all clients are closed and the thread must end.
    def closed_clients
      @lock.synchronize do
        next @gone.dup unless all_gone?

        @thread = nil
      end
    end

    # gone: clients that were closed before these events were taken. If the batch contains all events (returns true),
    # none of their events can follow.
    def publish_all(events, gone, delay)
      taken = Clock.now
      all = events.size < BATCH
      while (event = events.shift)
        publish(delay, taken, *event)
      end
      delay.report
      RepeatLimit.report
      forget(gone) if all && !gone.empty?
      @lock.synchronize { @forgotten.broadcast } if @settling
      all
    end

    def forget(gone)
      gone.each { |client| publish_closed(client) }
      @lock.synchronize do
        gone.each { |client| [@buses, @buffers, @groups, @moving, @statistics].each { |known| known.delete(client) } }
        @gone -= gone
        @forgotten.broadcast
      end
    end

    def publish_closed(client)
      bus = @lock.synchronize { @buses[client] }
      bus&.publish("client.closed", client: client)
    rescue Exception => e # rubocop:disable Lint/RescueException -- as in publish
      failed(bus, client, e)
    end

    # age: seconds from the native event until this thread took it. The bus does not rescue everything, for example a
    # failed assertion. Such an error of a subscriber must not affect other events.
    def publish(delay, taken, kind, client, *facts, age)
      bus = @lock.synchronize { @buses[client] } or return
      delay.note(bus, age + Clock.now - taken)
      dispatch(bus, kind, client, *facts)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever subscribers raise ends here
      failed(bus, client, e)
    ensure
      @labels.published
    end

    def failed(bus, client, error)
      bus.publish("error.occurred", error: error, source: "events", client: client)
    rescue Exception # rubocop:disable Lint/RescueException -- a subscriber of error.occurred raised it
      nil
    end

    def dispatch(bus, kind, client, *facts)
      case kind
      when :log then log(bus, client, *facts)
      when :statistics then statistics(bus, client, facts.first)
      when :error then error(bus, client, kafka_error(*facts))
      else of_producer(bus, client, kind, *facts)
      end
    end

    def of_producer(bus, client, kind, *facts)
      case kind
      when :delivery_failed then bus.publish("message.delivery_failed", **failure_payload(client, *facts))
      when :purged then bus.publish("message.purged", **failure_payload(client, *facts))
      when :acknowledged then acknowledged(bus, client, *facts)
      when :reported then reported(bus, client, *facts)
      when :queue_full then bus.publish("producer.queue_full", client: client, waits: facts[0], seconds: facts[1])
      when :disconnected then bus.publish("producer.disconnected", client: client, idle: facts.first)
      when :reconnected then bus.publish("producer.reconnected", client: client)
      when :unclosed then unclosed(bus, client, facts.first)
      end
    end

    def error(bus, name, error)
      bus.publish("error.occurred", error: error, source: "kafka", client: name) unless error.fenced? && moves?(name)
    end

    def moves?(client) = @lock.synchronize { @moving.key?(client) }

    # config.kafka is for producers and consumers, so it is normal that each kind ignores options of the other.
    def log(bus, client, level, facility, message)
      return if facility == "CONFWARN" && message.include?("property and will be ignored by this")

      level = 6 if moves?(client) && FENCED.match?(message) # syslog's info
      bus.publish("kafka.log", client: client, level: level, facility: facility, message: message)
    end

    def statistics(bus, client, json)
      return unless Statistics::EVENTS.any? { |name| bus.wanted?(name) }

      group = @lock.synchronize { @groups[client] }
      @statistics.publish(bus, client, group, (@module || Native).parse_statistics(json))
    end

    def unclosed(bus, client, undelivered)
      undelivered += @lock.synchronize { @buffers[client] }&.give_up.to_i
      bus.publish("producer.unclosed", client: client, undelivered: undelivered)
      Oauth.of(@module || Native).remove(client)
      remove(client)
    end

    def kafka_error(code, name, reason, fatal) = KafkaError.new(code, name, reason, fatal, false)

    # handle: where its label is, see Labels#of.
    def failure_payload(client, code, name, reason, topic, partition, *handle)
      label = @labels.of(*handle)
      error = DeliveryError.new(code, name, reason, false, false, topic, partition).with_label(label)
      { client: client, error: error, topic: topic, partition: partition, label: label }
    end

    # For middleware with `on_delivery`.
    def reported(bus, client, *failure, offset, seconds, id, position)
      code, _name, _reason, topic, partition = failure
      error = failure_payload(client, *failure, id, position)[:error] unless code.zero?
      report = DeliveryReport.new(topic, partition, (offset unless offset.negative?), seconds, error).freeze
      @labels.observers(id)&.call(bus, client, position, report)
    end

    def acknowledged(bus, client, topic, partition, offset, seconds, *handle)
      bus.publish("message.acknowledged", client: client, topic: topic, partition: partition, seconds: seconds,
                                          offset: (offset unless offset.negative?), label: @labels.of(*handle))
    end
  end
end
