# frozen_string_literal: true

require_relative "../runtime/weak_set"

module Pelton
  # The producer pools of an app that may be open. A closed one is remembered as long as it exists, because it may be
  # opened again. From any thread.
  class OpenPools
    def initialize
      @pools = []
      @closed = WeakSet.new
      @lock = Mutex.new
    end

    #: (ProducerPool) -> ProducerPool
    def add(pool)
      @lock.synchronize do
        closed, @pools = @pools.partition(&:closed?)
        closed.each { |closed_pool| @closed.add(closed_pool) }
        @pools << pool
      end
      pool
    end

    #: () -> Array[ProducerPool]
    def to_a = @lock.synchronize { @pools + @closed.to_a.reject(&:closed?) }
  end
end
