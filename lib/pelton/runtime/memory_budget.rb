# frozen_string_literal: true

require_relative "container"
require_relative "resource_monitor"
require_relative "weak_set"

module Pelton
  # Divides config.memory among what Pelton keeps in a process: a quarter each for messages that are fetched, for
  # payloads decoded ahead and for producers, and an eighth for messages that objects keep until Ruby collects them.
  class MemoryBudget
    # Of config.memory, if it is not set.
    MOST = 512 << 20
    LEAST = 32 << 20
    # librdkafka's limits, where the budget allows them: kilobytes of a partition, messages of a producer.
    PARTITION = 16_384
    QUEUE = 100_000
    # Kilobytes that each producer gets, however many there are, and the most that librdkafka takes.
    LEAST_QUEUE = 1024
    MOST_QUEUE = (2**31) - 1

    @lock = Mutex.new
    # Producers that opened. Guarded by @lock.
    @producers = WeakSet.new
    # The process's limit, and whether an app asked for it. Guarded by @lock.
    @total = @chosen = nil

    class << self
      # Sets the limits of this process. One that an app has set stays, if another leaves it open.
      #: (Config, Module) -> void
      def apply(config, native)
        budget = new(config)
        @lock.synchronize do
          if config.memory || !@chosen
            native.limit_memory(budget.fetched, budget.retained)
            native.decoding_memory = budget.decoded
            @total = budget.total
            @chosen ||= config.memory
          end
        end
        native.decoding_memory = config.decoding_memory if config.decoding_memory
      end

      # Options of a producer that opens as one more: it gets its part of what is left for all.
      #: (Config, Producer) -> Hash[String, Integer]
      def producer(config, producer)
        count = @lock.synchronize { @producers.add(producer).to_a.count { |one| !one.closed? } }
        new(config).producer(count)
      end

      # What ResourceMonitor measures, and `memory`: the budget, what the process has in RAM and the parts, in bytes.
      #: (Config, Module) -> Hash[Symbol, untyped]
      def stats(config, native)
        total = @lock.synchronize { @total } || new(config).total
        { **ResourceMonitor.measure, memory: { budget: total, resident: ResourceMonitor.resident, **native.memory } }
      end
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
    def retained = @total / 8
    def decoded = @total / 4
    def produced = @total / 4

    # Options of a producer that is one of so many.
    #: (?Integer) -> Hash[String, Integer]
    def producer(count = 1)
      kilobytes = (produced / 1024 / [count, 1].max).clamp(LEAST_QUEUE, MOST_QUEUE)
      { "queue.buffering.max.kbytes" => kilobytes,
        **(kilobytes * 4 < QUEUE ? { "queue.buffering.max.messages" => kilobytes * 4 } : {}) }
    end

    # Options of a subscription: a partition never takes more than an eighth of what all may take.
    #: () -> Hash[String, Integer]
    def subscription = { "queued.max.messages.kbytes" => [PARTITION, fetched / 8 / 1024].min }
  end
end
