# frozen_string_literal: true

require_relative "../producer"
require_relative "../subscription"

module Pelton
  # Opens the clients of a server's groups, each on the cluster of its group.
  class Clients
    INSTANCE = "group.instance.id"
    TRANSACTIONAL = "transactional.id"
    private_constant :INSTANCE, :TRANSACTIONAL

    # process: see App#start. middleware: of the producers.
    #: (Config, bus: Notifications, ?native: Module?, ?process: Integer?, ?middleware: Producer::Middleware) -> void
    def initialize(config, bus:, native: nil, process: nil, middleware: Producer::Middleware.new)
      @config = config
      @bus = bus
      @native = native
      @process = process
      @middleware = middleware
    end

    # The subscription of a group. deserializers: see Parallel::Engines.
    #: (Routing::Group, Hash[String, untyped]) -> Subscription
    def subscription(group, deserializers)
      Subscription.new(@config, group_id: group.name, max_messages: group.max_messages, decode: group.decode,
                                deserializers: deserializers, key_deserializers: group.key_deserializers,
                                headers_deserializers: group.headers_deserializers, where: group.where, bus: @bus,
                                native: @native, kafka: options(group))
    end

    # A lambda that opens producers for a group, with the facts of a partition (see Producer.new). If the app's producer
    # is transactional, a producer without an id gets one of the group.
    #: (Routing::Group) -> ^(String?, ?Hash[Symbol, untyped]) -> Producer
    def producers(group)
      lambda do |id, facts = {}|
        id ||= @config.kafka[TRANSACTIONAL]&.then { |apps| "#{apps}/#{group.name}" }
        # They also send copies of failed messages. The broker decides about their size.
        kafka = { **group.connection, TRANSACTIONAL => id, **Producer::UNLIMITED }.compact
        moves = !facts.empty? && group.assignment.nil?
        Producer.new(@config, bus: @bus, native: @native, kafka: kafka, facts: facts, moves: moves,
                              middleware: @middleware)
      end
    end

    private

    # The group's options. Each process gets its own group.instance.id.
    def options(group)
      id = @process && { **@config.kafka, **group.kafka }[INSTANCE]
      id ? { **group.kafka, INSTANCE => "#{id}-#{@process}" } : group.kafka
    end
  end
end
