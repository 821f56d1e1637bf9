# frozen_string_literal: true

require_relative "runtime/clock"
require_relative "errors"
require_relative "runtime/notifications"
require_relative "producer"
require_relative "settings/settings"

module Pelton
  # Producers that threads check out, so that transactions can run side by side: one producer runs one transaction at a
  # time. Each has a transactional id that stays the same after every start. So Kafka can end the open transaction of a
  # crashed process.
  #   POOL = Pelton.producer_pool(size: 5, kafka: { "transactional.id" => "billing" }) # billing-0 … billing-4
  #   POOL.transaction { |tx| tx.produce_async(topic: "paid", payload: "…") }
  #   POOL.with { |producer| producer.produce_sync(topic: "paid", payload: "…") }
  # Thread-safe. Waiting threads are served in order. A producer opens at its first checkout.
  class ProducerPool
    # A caller that waits for a producer, and the condition variable that wakes it.
    Waiter = Struct.new(:fiber, :thread, :bell)
    # A producer that is in use (its number, until its caller has opened it), and the caller's thread.
    Checkout = Struct.new(:producer, :thread)
    SIZE = Settings::Setting.new(:size, :count, 5, "producers")
    TIMEOUT = Settings::Setting.new(:timeout, :seconds, 5, "how long `with` waits", unit: "s")
    KAFKA = Settings::Setting.new(:kafka, :kafka, {}, "options of librdkafka")
    ID = "transactional.id"
    # Seconds of one wait at most; then the next one begins. (Ruby cannot wait for 1e300 s.)
    LONG = 3600
    NEVER = { Object => :never }.freeze
    private_constant :Waiter, :Checkout, :SIZE, :TIMEOUT, :KAFKA, :ID, :LONG, :NEVER

    # size: number of producers. timeout: seconds that `with` waits for a free one.
    #   POOL.size # => 5
    attr_reader :size, :timeout

    # Pelton.producer_pool and App#producer_pool make one for you.
    #   Pelton.producer_pool(size: 5) do |index|
    #     { "transactional.id" => "billing-#{Socket.gethostname}-#{Process.pid}-#{index}" }
    #   end
    # size: number of producers. timeout: seconds that `with` waits for a free one. kafka: options of librdkafka for all
    # of them. The block returns further options for each; it is called with the producer's number at its first
    # checkout.
    #
    # A "transactional.id" that does not come from the block gets the number as a suffix. Processes must not share
    # transactional ids. So a pool with fixed ids works in one process, and raises ForkError in its forks. Raises
    # ConfigError for wrong arguments. middleware: the app's list.
    #: (Config, ?size: Integer, ?timeout: Numeric, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped],
    #:   ?middleware: Producer::Middleware) ?{ (Integer) -> Hash[String, untyped] } -> void
    def initialize(config, size: 5, timeout: 5, bus: Notifications.new, native: nil, kafka: {},
                   middleware: Producer::Middleware.new, &options)
      @config = config
      @size = SIZE.check(size)
      @timeout = TIMEOUT.check(timeout)
      @bus = bus
      @native = native
      @middleware = middleware
      @kafka = KAFKA.check(kafka)
      @options = options
      @close_timeout = config.delivery_timeout
      @home = Process.pid
      @lock = Mutex.new
      # Signaled when no producer is in use any more.
      @idle = ConditionVariable.new
      fill
    end

    # Checks out a producer for the block and returns the block's value. A nested `with` of the same thread (or fiber)
    # gets the same producer.
    #   POOL.with { |producer| producer.produce_sync(topic: "paid", payload: "…") }
    # Raises PoolTimeout if no producer is free within `timeout` seconds (5 s), and ClosedError. Callable from every
    # thread. If another process fenced a producer, its callers fail until `reload` is called or config.reload_fenced
    # is set.
    #: () { (Producer) -> untyped } -> untyped
    def with
      checkout = mine
      return yield(checkout.producer) if checkout

      begin
        yield take
      ensure
        Thread.handle_interrupt(NEVER) { give_back }
      end
    end

    # Checks out a producer for one transaction and returns the block's value: see Producer#transaction.
    #   POOL.transaction { |tx| tx.produce_async(topic: "paid", payload: "…") }
    # Raises what `with` and Producer#transaction raise. Callable from every thread.
    #: () { (Producer::Transaction) -> untyped } -> untyped
    def transaction(&block) = with { |producer| producer.transaction(&block) }

    # Refuses further callers, waits for the producers in use, then closes each as Producer#close does. All of that
    # takes at most `timeout` seconds (config.delivery_timeout, 180 s). Returns how many messages were not delivered.
    # App#close calls it.
    #   POOL.close(timeout: 10) # => 0
    # Callable from every thread, but not inside of `with`: there it raises TransactionError.
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: @close_timeout)
      raise TransactionError.new("the pool of producers", :checked_out) if mine

      deadline = Clock.deadline(timeout)
      producers = @lock.synchronize do
        @closed = true
        @waiting.each { |waiter| waiter.bell.signal }
        reclaim
        @idle.wait(@lock, [LONG, *Clock.left(deadline)].min) until @checkouts.empty? || Clock.left(deadline)&.zero?
        @pid == Process.pid ? @producers.values : []
      end
      producers.sum { |producer| producer.close(timeout: Clock.left(deadline)) }
    end

    # Closes the producers as `close` does. The next callers get new ones. Returns what `close` returns.
    #   POOL.reload(timeout: 10) # => 0
    #: (?timeout: Numeric?) -> Integer
    def reload(timeout: @close_timeout)
      close(timeout: timeout).tap { @lock.synchronize { fill } }
    end

    # Waits until all messages of its producers have a result. Returns false if one failed without a waiting thread, or
    # `timeout` seconds (config.delivery_timeout, 180 s) are over. Meanwhile, producers can be checked out.
    #   POOL.flush(timeout: 10) # => true
    #: (?timeout: Numeric?) -> bool
    def flush(timeout: @close_timeout)
      deadline = Clock.deadline(timeout)
      opened.reject(&:closed?).map { |producer| producer.flush(timeout: Clock.left(deadline)) }.all?
    end

    # Number of messages of its producers without a result.
    #   POOL.pending # => 0
    #: () -> Integer
    def pending = opened.sum(&:pending)

    # For Pelton: see Producer#sent.
    #: () -> Integer
    def sent = opened.sum(&:sent)

    # Has `close` been called, without a `reload` after it?
    #   POOL.closed? # => false
    #: () -> bool
    def closed? = @closed

    def inspect = "#<#{self.class} #{@size} producers, #{@checkouts.size} in use#{" closed" if @closed}>"

    private

    def opened = @lock.synchronize { @pid == Process.pid ? @producers.values : [] }

    # The checkout of this fiber. A forked child has none.
    def mine = (@checkouts[Fiber.current] if @pid == Process.pid)

    # All producers are free. Under @lock, like every use of this state, except reading one's own checkout.
    def fill
      @pid = Process.pid
      @closed = false
      # Producers that were checked out at least once: {0 => Producer}
      @producers = {}
      # Producers, or numbers of those that are not made yet. The last one is next.
      @free = (0...@size).to_a.reverse
      # {fiber => Checkout}
      @checkouts = {}.compare_by_identity
      # Waiters, in order.
      @waiting = []
    end

    def take
      @lock.synchronize do
        fill unless @pid == Process.pid # the parent's producers are the parent's
        raise ClosedError, "the pool of producers" if @closed

        reclaim if @free.empty?
        @free.empty? ? wait : check_out
        checkout = @checkouts.fetch(Fiber.current)
        # If the options are wrong, only this caller fails: the number goes back.
        checkout.producer = made(checkout.producer) if checkout.producer.is_a?(Integer)
        checkout.producer
      end
    end

    # A producer that is neither free nor checked out would be lost. So no interrupt may come in between, here and in
    # similar places.
    def check_out
      Thread.handle_interrupt(NEVER) { @checkouts[Fiber.current] = Checkout.new(@free.pop, Thread.current) }
    end

    # A caller that gives a producer back hands it to the first waiter, so no other caller can take it.
    def wait
      deadline = Clock.now + @timeout
      waiter = Waiter.new(Fiber.current, Thread.current, ConditionVariable.new)
      @waiting << waiter
      until @checkouts.key?(waiter.fiber)
        raise ClosedError, "the pool of producers" if @closed

        left = Clock.left(deadline)
        raise PoolTimeout.new(@size, @timeout) if left.zero?

        waiter.bell.wait(@lock, [LONG, left].min)
      end
    ensure
      Thread.handle_interrupt(NEVER) { @waiting.delete_if { |other| other.equal?(waiter) } }
    end

    def give_back
      @lock.synchronize do
        checkout = @checkouts.delete(Fiber.current) or return
        serve(checkout.producer)
      end
    end

    def serve(producer)
      # If its caller has closed it, the next one gets a new producer.
      producer = @producers.key(producer) if producer.is_a?(Producer) && producer.closed?
      waiter = @waiting.shift unless @closed
      return @free.push(producer) && @checkouts.empty? && @idle.broadcast unless waiter

      @checkouts[waiter.fiber] = Checkout.new(producer, waiter.thread)
      waiter.bell.signal
    end

    # A fiber that is dropped with its thread runs no ensure.
    def reclaim
      dead = @checkouts.filter_map { |fiber, checkout| fiber unless checkout.thread.alive? }
      Thread.handle_interrupt(NEVER) { dead.each { |fiber| serve(@checkouts.delete(fiber).producer) } }
    end

    def made(index)
      @producers[index] = Producer.new(@config, bus: @bus, native: @native, kafka: options(index),
                                                middleware: @middleware)
    end

    def options(index)
      own = @options ? KAFKA.check(@options.call(index)) : {}
      id = { **@config.kafka, **@kafka }[ID]
      return { **@kafka, **own } if own.key?(ID) || !id
      # Another process would fence this one.
      raise ForkError.new("the pool of producers with #{ID} #{id}", @home) unless @home == Process.pid

      { **@kafka, **own, ID => "#{id}-#{index}" }
    end
  end
end
