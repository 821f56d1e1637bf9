# frozen_string_literal: true

require_relative "clock"
require_relative "event_delay"
require_relative "labels"
require_relative "oauth"
require_relative "../logging/repeat_limit"
require_relative "threads"

module Pelton
  # Brings native events (logs, errors, statistics, failed deliveries) to the bus of the client they belong to. One Ruby
  # thread a poller, started with its first client, ended with its last; a forked child starts its own with its first
  # client.
  class EventDispatch
    LOCK = Mutex.new
    # Events taken from the native side at once: other Ruby threads run in between.
    BATCH = 1000
    # Seconds that a close waits at most until its last events are published.
    LAST_WORDS = 0.5
    private_constant :LOCK, :BATCH, :LAST_WORDS

    # A name that no other client of this process has: "pelton.producer#1"
    #: (String) -> String
    def self.client_name(prefix) = LOCK.synchronize { "#{prefix}##{@clients = (@clients || 0) + 1}" }

    # Of messages whose events this process publishes. Set under @lock.
    #: () -> Labels
    attr_reader :labels

    # name: of its thread; native: the native module (tests bring their own).
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
      # Those of them that are closed: forgotten once what they said before is published. Guarded by @lock.
      @gone = []
      @pid = nil
      @labels = Labels.new(poller)
      # The thread that publishes; it sets nil itself when all clients are gone. Guarded by @lock.
      @thread = nil
      # Does somebody wait for what was emitted to be published?
      @settling = false
      # Clients were forgotten, or events published that somebody waits for.
      @forgotten = ConditionVariable.new
    end

    # From now on events of this client are published on this bus. buffer: a producer's, whose messages are lost when
    # the producer is garbage collected.
    #: (String, Notifications, ?Producer::Buffer?) -> void
    def add(client, bus, buffer = nil)
      whole do
        start_anew unless @pid == Process.pid
        @buses[client] = bus
        @buffers[client] = buffer if buffer
        @thread = Threads.start(@name) { run } unless @thread&.alive?
      end
    end

    # The client is closed; what it said until now is still published. With the last one the thread ends, which is
    # waited for: with a limit, since a subscriber may wait for the one who closes.
    #: (String) -> void
    def remove(client)
      thread = whole do
        next unless @pid == Process.pid # the parent's client

        @gone << client if @buses.key?(client) && !@gone.include?(client)
        # A subscriber closed it: the thread looks for itself.
        next unless @thread&.alive? && @thread != Thread.current

        @poller.wake # also while others are open: who is gone is forgotten now, not with the next event
        @thread if all_gone?
      end
      return unless thread

      deadline = Clock.now + LAST_WORDS
      thread.join(Clock.left(deadline)) if forgotten?(client, deadline)
    end

    # Waits until what was emitted so far is published, `seconds` at most.
    #: (Numeric) -> void
    def settle(seconds)
      deadline = Clock.now + seconds
      @lock.synchronize do
        emitted = @poller.told
        while @thread&.alive? && @labels.count < emitted && (left = Clock.left(deadline)).positive?
          @settling = true
          @forgotten.wait(@lock, left)
        end
      end
    end

    private

    # Not to be interrupted: that would leave a client without its thread, two threads for one wake-up, or one for none.
    def whole(&section) = Thread.handle_interrupt(Object => :never) { @lock.synchronize(&section) }

    # Of a parent's clients and messages its child hears nothing.
    def start_anew
      [@buses, @buffers, @gone].each(&:clear)
      @labels = Labels.new(@poller)
      @pid = Process.pid
    end

    def all_gone? = @buses.size == @gone.size

    # Waits until the client's last event is published; true if the thread ends then, without a new client.
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

    # events: that a thread before this one left behind. It ends only while it waits or in a subscriber (which may call
    # Thread.exit): other events that were taken are published.
    def run(delay = EventDelay.new(@poller.name), events = [])
      Thread.handle_interrupt(Object => :never) do
        publish_all(events, [], delay)
        while (gone = still_gone)
          Thread.handle_interrupt(Object => :immediate) do
            events = @poller.next_events(gone.empty? ? due(delay) : 0, BATCH)
          end
          publish_all(events, gone, delay)
        end
        over = true
      ensure
        last_words(delay, events) if over || !replaced?(delay, events)
      end
    end

    # Seconds until something is to be told without an event.
    def due(delay) = [delay.due, RepeatLimit.due].compact.min

    # Somebody ended this thread: another one goes on. false: so does Ruby, with all of them.
    def replaced?(delay, events)
      @lock.synchronize { @thread = Threads.start(@name) { run(delay, events) } }
    rescue ThreadError
      false
    end

    def last_words(delay, events)
      gone = @lock.synchronize { @gone.dup }
      publish_all(events, [], delay)
      nil until publish_all(@poller.next_events(0, BATCH), gone, delay)
      delay.tell(last: true)
    end

    # The clients that are closed already, or nil: all are, the thread has to end.
    def still_gone
      @lock.synchronize do
        next @gone.dup unless all_gone?

        @thread = nil
      end
    end

    # gone: closed before the events were taken, so there will be no more of theirs, if these were all (true).
    def publish_all(events, gone, delay)
      taken = Clock.now
      all = events.size < BATCH
      while (event = events.shift)
        publish(delay, taken, *event)
      end
      delay.tell
      RepeatLimit.tell
      @lock.synchronize { forget(gone) } if all && !gone.empty?
      @lock.synchronize { @forgotten.broadcast } if @settling
      all
    end

    def forget(gone)
      gone.each { |client| [@buses, @buffers].each { |known| known.delete(client) } }
      @gone -= gone
      @forgotten.broadcast
    end

    # age: seconds between the native side's telling and our taking it. What subscribers raise that even the bus lets
    # pass, as a failed assertion, harms no other event.
    def publish(delay, taken, kind, client, *facts, age)
      bus = @lock.synchronize { @buses[client] } or return
      delay.note(bus, age + Clock.now - taken)
      tell(bus, kind, client, *facts)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever subscribers raise ends here
      failed(bus, client, e)
    ensure
      @labels.published
    end

    def failed(bus, client, error)
      bus.publish("error.occurred", error: error, source: "events", client: client)
    rescue Exception # rubocop:disable Lint/RescueException -- from who is told of errors: nobody else is
      nil
    end

    def tell(bus, kind, client, *facts)
      case kind
      when :log then log(bus, client, *facts)
      when :statistics then statistics(bus, client, facts.first)
      when :error then bus.publish("error.occurred", error: kafka_error(*facts), source: "kafka", client: client)
      else of_producer(bus, client, kind, *facts)
      end
    end

    def of_producer(bus, client, kind, *facts)
      case kind
      when :delivery_failed then bus.publish("message.delivery_failed", **refusal(client, *facts))
      when :purged then bus.publish("message.purged", **refusal(client, *facts))
      when :acknowledged then acknowledged(bus, client, *facts)
      when :queue_full then bus.publish("producer.queue_full", client: client, waits: facts[0], seconds: facts[1])
      when :disconnected then bus.publish("producer.disconnected", client: client, idle: facts.first)
      when :reconnected then bus.publish("producer.reconnected", client: client)
      when :unclosed then unclosed(bus, client, facts.first)
      end
    end

    # config.kafka is for clients of both kinds: that a producer ignores a consumer's option is as it should be.
    def log(bus, client, level, facility, message)
      return if facility == "CONFWARN" && message.include?("property and will be ignored by this")

      bus.publish("kafka.log", client: client, level: level, facility: facility, message: message)
    end

    def statistics(bus, client, json)
      return unless bus.wanted?("statistics.emitted")

      bus.publish("statistics.emitted", client: client, statistics: (@module || Native).parse_statistics(json))
    end

    def unclosed(bus, client, undelivered)
      undelivered += @lock.synchronize { @buffers[client] }&.give_up.to_i
      bus.publish("producer.unclosed", client: client, undelivered: undelivered)
      Oauth.of(@module || Native).remove(client)
      remove(client)
    end

    def kafka_error(code, name, reason, fatal) = KafkaError.new(code, name, reason, fatal, false)

    # place: of its label, see Labels.
    def refusal(client, code, name, reason, topic, partition, *place)
      label = @labels.of(*place)
      error = DeliveryError.new(code, name, reason, false, false, topic, partition).with_label(label)
      { client: client, error: error, topic: topic, partition: partition, label: label }
    end

    def acknowledged(bus, client, topic, partition, offset, *place)
      bus.publish("message.acknowledged", client: client, topic: topic, partition: partition,
                                          offset: (offset unless offset.negative?), label: @labels.of(*place))
    end
  end
end
