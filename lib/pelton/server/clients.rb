# frozen_string_literal: true

require_relative "../producer"
require_relative "../subscription"

module Pelton
  # Opens the clients of a server's groups: where the group's consumers are, whatever cluster that is.
  class Clients
    INSTANCE = "group.instance.id"
    TRANSACTIONAL = "transactional.id"
    private_constant :INSTANCE, :TRANSACTIONAL

    # process: see App#start.
    #: (Config, bus: Notifications, ?native: Module?, ?process: Integer?) -> void
    def initialize(config, bus:, native: nil, process: nil)
      @config = config
      @bus = bus
      @native = native
      @process = process
    end

    # What reads for a group. deserializers: see Parallel::Engines.
    #: (Routing::Group, Hash[String, untyped]) -> Subscription
    def subscription(group, deserializers)
      Subscription.new(@config, group_id: group.name, max_messages: group.max_messages, decode: group.decode,
                                deserializers: deserializers, key_deserializers: group.key_deserializers,
                                headers_deserializers: group.headers_deserializers, where: group.where, bus: @bus,
                                native: @native, kafka: options(group))
    end

    # Makes producers for a group. Without an id, where the app's producer is transactional, with an id of the group's
    # own.
    #: (Routing::Group) -> ^(String?) -> Producer
    def producers(group)
      lambda do |id|
        id ||= @config.kafka[TRANSACTIONAL]&.then { |apps| "#{apps}/#{group.name}" }
        # They send copies of failed messages, too, about whose size the broker decides.
        place = { **group.place, TRANSACTIONAL => id, **Producer::UNLIMITED }.compact
        Producer.new(@config, bus: @bus, native: @native, kafka: place)
      end
    end

    private

    # A member's own name is the process's own.
    def options(group)
      id = @process && { **@config.kafka, **group.kafka }[INSTANCE]
      id ? { **group.kafka, INSTANCE => "#{id}-#{@process}" } : group.kafka
    end
  end
end
