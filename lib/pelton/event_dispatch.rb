# frozen_string_literal: true

require_relative "json"
require_relative "threads"

module Pelton
  # Brings native events (logs, errors, statistics, failed deliveries) to the bus of the client they belong to. One Ruby
  # thread for the process, "pelton.events": started with the first client, ended with the last; a forked child starts
  # its own with its first client.
  class EventDispatch
    INSTANCES = {} # rubocop:disable Style/MutableConstant -- {native module => its dispatch}, guarded by LOCK
    LOCK = Mutex.new
    # Seconds that a close waits at most until its last events are published.
    LAST_WORDS = 0.5
    private_constant :INSTANCES, :LOCK, :LAST_WORDS

    # A name that no other client of this process has: "pelton.producer#1"
    #: (String) -> String
    def self.client_name(prefix) = LOCK.synchronize { "#{prefix}##{@clients = (@clients || 0) + 1}" }

    # The dispatch of a native module (there is one; tests bring their own).
    #: (Module) -> EventDispatch
    def self.of(native) = LOCK.synchronize { INSTANCES[native] ||= new(native) }

    #: (Module) -> void
    def initialize(native)
      @native = native
      @lock = Mutex.new
      # Client name => bus, of the clients that this process (@pid) opened. Guarded by @lock.
      @buses = {}
      # Those of them that are closed: forgotten once what they said before is published. Guarded by @lock.
      @gone = []
      @pid = nil
      # The thread that waits in next_events; nil without clients. Guarded by @lock.
      @thread = nil
    end

    # From now on events of this client are published on this bus.
    #: (String, Notifications) -> void
    def add(client, bus)
      @lock.synchronize do
        [@buses, @gone].each(&:clear) unless @pid == Process.pid
        @pid = Process.pid
        @buses[client] = bus
        @thread = Threads.start("pelton.events") { run } unless @thread&.alive?
      end
    end

    # The client is closed; what it said until now is still published. With the last one the thread ends.
    #: (String) -> void
    def remove(client)
      last = @lock.synchronize do
        @gone << client if @buses.key?(client) && !@gone.include?(client)
        next unless @buses.size == @gone.size

        thread = @thread
        @thread = nil
        thread
      end
      # A subscriber closed it: the thread looks for itself.
      return if last.nil? || last == Thread.current

      last.kill
      last.join(LAST_WORDS) # with a limit, since a subscriber may wait for the one who closes
    end

    private

    # Killed only while it waits: an event that was taken is published.
    def run
      Thread.handle_interrupt(Object => :never) do
        events = nil
        while (gone = still_gone)
          Thread.handle_interrupt(Object => :immediate) { events = @native.next_events(nil) }
          publish_all(events, gone)
          events = nil
        end
      ensure
        publish_all([*events, *@native.next_events(0)], @lock.synchronize { @gone.dup })
      end
    end

    # The clients that are closed already, or nil: the thread has to end.
    def still_gone = @lock.synchronize { @gone.dup if @thread == Thread.current }

    # gone: closed before the events were taken, so there will be no more of theirs.
    def publish_all(events, gone)
      events&.each { |event| publish(*event) }
      @lock.synchronize { forget(gone) } unless gone.empty?
    end

    def forget(gone)
      gone.each { |client| @buses.delete(client) }
      @gone -= gone
    end

    def publish(kind, client, *facts)
      bus = @lock.synchronize { @buses[client] } or return
      case kind
      when :log then log(bus, client, *facts)
      when :statistics then statistics(bus, client, facts.first)
      when :error then bus.publish("error.occurred", error: kafka_error(*facts), source: "kafka", client: client)
      when :delivery_failed then delivery_failed(bus, client, *facts)
      when :unclosed then unclosed(bus, client, facts.first)
      end
    rescue StandardError => e
      bus.publish("error.occurred", error: e, source: "events", client: client)
    end

    # config.kafka is for clients of both kinds: that a producer ignores a consumer's option is as it should be.
    def log(bus, client, level, facility, message)
      return if facility == "CONFWARN" && message.include?("property and will be ignored by this")

      bus.publish("kafka.log", client: client, level: level, facility: facility, message: message)
    end

    def statistics(bus, client, json)
      return unless bus.wanted?("statistics.emitted")

      bus.publish("statistics.emitted", client: client, statistics: Json.parse(json))
    end

    def unclosed(bus, client, undelivered)
      bus.publish("producer.unclosed", client: client, undelivered: undelivered)
      remove(client)
    end

    def kafka_error(code, name, reason, fatal) = KafkaError.new(code, name, reason, fatal, false)

    def delivery_failed(bus, client, code, name, reason, topic, partition)
      error = DeliveryError.new(code, name, reason, false, false, topic, partition)
      bus.publish("message.delivery_failed", client: client, error: error, topic: topic, partition: partition)
    end
  end
end
