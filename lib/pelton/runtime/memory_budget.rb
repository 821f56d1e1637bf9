# frozen_string_literal: true

require_relative "container"
require_relative "resource_monitor"

module Pelton
  # Divides config.memory among what Pelton keeps in a process: a quarter each for messages that are fetched, for
  # payloads decoded ahead and for producers, and an eighth for messages that objects keep until Ruby collects them.
  # Less is taken where more makes nothing faster.
  class MemoryBudget
    # Of config.memory, if it is not set.
    MOST = 512 << 20
    LEAST = 32 << 20
    # What is enough, also for the fastest consumers: kilobytes of a partition in librdkafka, bytes of messages that
    # objects keep, and of payloads decoded ahead for each core.
    PARTITION = 16_384
    RETAINED = 16 << 20
    DECODED = 4 << 20
    # Kilobytes that a producer may have in librdkafka.
    MOST_QUEUE = (2**31) - 1

    @lock = Mutex.new
    # The process's limit, and whether an app asked for it. Guarded by @lock.
    @total = @chosen = nil

    class << self
      # Sets the limits of this process. One that an app has set stays, if another leaves it open.
      #: (Config, Module) -> void
      def apply(config, native)
        budget = new(config)
        @lock.synchronize do
          if config.memory || !@chosen
            native.limit_memory(budget.fetched, budget.retained, budget.produced)
            native.decoding_memory = budget.decoded
            @total = budget.total
            @chosen ||= config.memory
          end
        end
        native.decoding_memory = config.decoding_memory if config.decoding_memory
      end

      # Bytes of fetched messages that are not finished, and of the budget.
      #: (Config, Module) -> [Integer, Integer]
      def fetched(config, native)
        [native.memory.values_at(:fetched, :batches).sum, total(config)]
      end

      # What ResourceMonitor measures, and `memory`: the budget, what the process has in RAM and the parts, in bytes.
      #: (Config, Module) -> Hash[Symbol, untyped]
      def stats(config, native)
        { **ResourceMonitor.measure,
          memory: { budget: total(config), resident: ResourceMonitor.resident, **native.memory } }
      end

      private

      def total(config) = @lock.synchronize { @total } || new(config).total
    end

    # Bytes of all parts together.
    #: () -> Integer
    attr_reader :total

    #: (Config, ?limit: Integer?) -> void
    def initialize(config, limit: config.memory ? nil : Container.memory)
      @total = config.memory || (limit ? (limit / 4).clamp(LEAST, MOST) : MOST)
    end

    #: () -> Integer
    def fetched = @total / 4
    def retained = [@total / 8, RETAINED].min
    def decoded(cores = Container.cores) = [@total / 4, DECODED * cores].min
    def produced = @total / 4

    # Options of a producer. It may take what there is for all of them together.
    #: () -> Hash[String, Integer]
    def producer = { "queue.buffering.max.kbytes" => [produced / 1024, MOST_QUEUE].min }

    # Options of a subscription: a partition never takes more than an eighth of what all may take.
    #: () -> Hash[String, Integer]
    def subscription = { "queued.max.messages.kbytes" => [PARTITION, fetched / 8 / 1024].min }
  end
end
