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
    private_constant :INSTANCES, :LOCK

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
      @pid = nil
      # The thread that waits in next_events; nil without clients. Guarded by @lock.
      @thread = nil
    end

    # From now on events of this client are published on this bus.
    #: (String, Notifications) -> void
    def add(client, bus)
      @lock.synchronize do
        @buses.clear unless @pid == Process.pid
        @pid = Process.pid
        @buses[client] = bus
        @thread = Threads.start("pelton.events") { run } unless @thread&.alive?
      end
    end

    # The client is closed. With the last one the thread ends.
    #: (String) -> void
    def remove(client)
      last = @lock.synchronize do
        @buses.delete(client)
        next unless @buses.empty?

        thread = @thread
        @thread = nil
        thread
      end
      return unless last&.alive?

      # Takes effect in next_events only: see run.
      last.kill
      last.join unless last == Thread.current
    end

    private

    # next_events is the one place where the thread may be killed: an event that was taken is published.
    def run
      Thread.handle_interrupt(Object => :never) do
        loop do
          events = Thread.handle_interrupt(Object => :immediate) { @native.next_events(nil) }
          events&.each { |event| publish(*event) }
        end
      end
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

    def delivery_failed(bus, client, code, reason, topic, partition)
      error = DeliveryError.new(code, :"#{code}", reason, false, false, topic, partition)
      bus.publish("message.delivery_failed", client: client, error: error, topic: topic, partition: partition)
    end
  end
end
