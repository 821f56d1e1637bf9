# frozen_string_literal: true

require_relative "../../avro/schema_prefetcher"
require_relative "../../runtime/container"
require_relative "parallel"
require_relative "eager_decoding"
require_relative "auto"
require_relative "decoding"

module Pelton
  module Parallel
    # The engines of one server: one pool of each kind that its topics use, and one prefetcher of schemas.
    class Engines
      #: (Config, Notifications) -> void
      def initialize(config, bus)
        @config = config
        @bus = bus
        # {ractor: pool}, and the engines that measure. Filled while the server boots.
        @pools = {}
        @autos = []
        # Set with the first group that has a registry.
        @look_ups = nil
      end

      # The group's deserializers by topic, for a subscription. Those with `parallel` become Decodings, whose pools are
      # started. With :auto, a trial starts the pools, and only the chosen one stays.
      #: (Routing::Group) -> Hash[String, untyped]
      def deserializers(group)
        ways = group.parallel
        group.deserializers.to_h do |topic, deserializer|
          way = ways.fetch(topic, :inline)
          [topic, deserializer.nil? || way == :inline ? deserializer : decoding(topic, deserializer, way)]
        end
      end

      # The work that starts when the group's batches arrive; nil if there is none. deserializers: the result of that
      # method.
      #: (Routing::Group, Hash[String, untyped]) -> EagerDecoding?
      def ahead(group, deserializers)
        asks = group.decode.each_value.any? { |format| format.is_a?(Hash) && format[:decoder]&.asks? }
        @look_ups ||= Avro::SchemaPrefetcher.new(@bus) if asks
        ahead = EagerDecoding.new(deserializers, (@look_ups if asks))
        ahead unless ahead.none?
      end

      # Returns false if some workers had to be killed.
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        deadline = Clock.deadline(timeout)
        [*@look_ups, *@autos, *@pools.each_value].map { |engine| engine.close(timeout: Clock.left(deadline)) }.all?
      end

      # Is there nothing to close?
      #: () -> bool
      def none? = @pools.empty? && @look_ups.nil?

      private

      def decoding(topic, deserializer, way)
        engine = way == :auto ? auto(topic, deserializer) : pool(way).start.retain
        deserializer = Decoding::Frozen.new(deserializer) unless way == :thread
        Decoding.new(deserializer, engine, topic: topic, bus: @bus, timeout: @config.parallel_timeout)
      end

      # Does not freeze the deserializer for a trial, so Ractors take part only if it is shareable already.
      def auto(topic, deserializer)
        ways = [:thread, *(:ractor if RactorWorker.available? && RactorWorker.refusal(deserializer).nil?)]
        engine = Auto.new(ways.to_h { |way| [way, pool(way)] }) do |name, seconds, messages|
          @bus.publish("parallel.chosen", topic: topic, engine: name, seconds: seconds, messages: messages)
        end
        @autos << engine
        engine
      end

      def pool(way)
        @pools[way] ||= Parallel.engine(way, size: @config.parallel_workers || Container.cores,
                                             min: @config.parallel_min, name: "pelton.parallel[#{way}]", bus: @bus)
      end
    end
  end
end
