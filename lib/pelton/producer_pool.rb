# frozen_string_literal: true

require_relative "clock"
require_relative "errors"
require_relative "notifications"
require_relative "producer"
require_relative "settings"

module Pelton
  # Producers to borrow, for transactions side by side: a producer has one transaction at a time. Each has a
  # transactional id of its own, the same one after every start, by which Kafka ends what a dead process left open.
  #   POOL = Pelton.producer_pool(size: 5, kafka: { "transactional.id" => "billing" }) # billing-0 … billing-4
  #   POOL.transaction { |tx| tx.produce_async(topic: "paid", payload: "…") }
  #   POOL.with { |producer| producer.produce_sync(topic: "paid", payload: "…") }
  # Thread-safe; whoever waits is served in the order of coming. Producers open when they are first borrowed.
  class ProducerPool
    # Whoever waits for a producer: who it is, and what wakes it.
    Waiter = Struct.new(:fiber, :thread, :bell)
    # A producer that is out (its number, until whoever borrows it has made it), and with which thread.
    Loan = Struct.new(:producer, :thread)
    SIZE = Settings::Setting.new(:size, :count, 5, "producers")
    TIMEOUT = Settings::Setting.new(:timeout, :seconds, 5, "how long `with` waits", unit: "s")
    KAFKA = Settings::Setting.new(:kafka, :kafka, {}, "options of librdkafka")
    ID = "transactional.id"
    # Seconds of one wait at most; then the next one begins. (Ruby cannot wait for 1e300 s.)
    LONG = 3600
    NEVER = { Object => :never }.freeze
    private_constant :Waiter, :Loan, :SIZE, :TIMEOUT, :KAFKA, :ID, :LONG, :NEVER

    attr_reader :size, :timeout

    # timeout: seconds that `with` waits for a producer (PoolTimeout). The block gives the options of librdkafka of each
    # producer, called with its number when it is first borrowed:
    #   Pelton.producer_pool { |index| { "transactional.id" => "billing-#{ENV.fetch("WORKER")}-#{index}" } }
    # An id that does not come from the block gets the number behind it. Processes must not share transactional ids: a
    # pool of fixed ids is of use in one process, not in its forks.
    #: (Config, ?size: Integer, ?timeout: Numeric, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped])
    #:   ?{ (Integer) -> Hash[String, untyped] } -> void
    def initialize(config, size: 5, timeout: 5, bus: Notifications.new, native: nil, kafka: {}, &options)
      @config = config
      @size = SIZE.check(size)
      @timeout = TIMEOUT.check(timeout)
      @bus = bus
      @native = native
      @kafka = KAFKA.check(kafka)
      @options = options
      @close_timeout = config.delivery_timeout
      @home = Process.pid
      @lock = Mutex.new
      # Nobody has borrowed anything any more.
      @idle = ConditionVariable.new
      fill
    end

    # Lends a producer to the block. A block within the block of the same thread (or fiber) gets the same one. Raises
    # PoolTimeout when none is given back in time, ClosedError. One that another process has fenced fails its borrowers
    # until `reload` (or config.reload_fenced), as a producer does by itself.
    #: () { (Producer) -> untyped } -> untyped
    def with
      loan = mine
      return yield(loan.producer) if loan

      begin
        yield take
      ensure
        Thread.handle_interrupt(NEVER) { give_back }
      end
    end

    # Borrows a producer for one transaction: see Producer#transaction.
    #: () { (Producer::Transaction) -> untyped } -> untyped
    def transaction(&block) = with { |producer| producer.transaction(&block) }

    # Lends no more, waits for what is out, then closes each producer as Producer#close does, all within `timeout`
    # seconds. Returns how many messages could not be delivered.
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: @close_timeout)
      raise TransactionError.new("the pool of producers", :borrowed) if mine

      deadline = Clock.deadline(timeout)
      producers = @lock.synchronize do
        @closed = true
        @waiting.each { |waiter| waiter.bell.signal }
        reclaim
        @idle.wait(@lock, [LONG, *Clock.left(deadline)].min) until @loans.empty? || Clock.left(deadline)&.zero?
        @pid == Process.pid ? @producers.values : []
      end
      producers.sum { |producer| producer.close(timeout: Clock.left(deadline)) }
    end

    # Closes the producers as `close` does; the next ones to borrow are new. Returns what `close` returns.
    #: (?timeout: Numeric?) -> Integer
    def reload(timeout: @close_timeout)
      close(timeout: timeout).tap { @lock.synchronize { fill } }
    end

    # Waits until all that its producers have produced so far is delivered or given up; false: not within `timeout`
    # seconds. Lends on meanwhile.
    #: (?timeout: Numeric?) -> bool
    def flush(timeout: @close_timeout)
      deadline = Clock.deadline(timeout)
      opened.reject(&:closed?).map { |producer| producer.flush(timeout: Clock.left(deadline)) }.all?
    end

    # Messages of its producers that are not yet reported.
    #: () -> Integer
    def pending = opened.sum(&:pending)

    #: () -> bool
    def closed? = @closed

    def inspect = "#<#{self.class} #{@size} producers, #{@loans.size} borrowed#{" closed" if @closed}>"

    private

    def opened = @lock.synchronize { @pid == Process.pid ? @producers.values : [] }

    # What this fiber has borrowed; a child has nothing of its parent's.
    def mine = (@loans[Fiber.current] if @pid == Process.pid)

    # All of them, none borrowed. Under @lock, as all use of this state but a look for one's own loan.
    def fill
      @pid = Process.pid
      @closed = false
      # Those that were borrowed at least once, by their numbers.
      @producers = {}
      # Producers, or numbers of those that are to be made; the next one to lend is the last.
      @free = (0...@size).to_a.reverse
      # {fiber => Loan}
      @loans = {}.compare_by_identity
      # In the order of coming.
      @waiting = []
    end

    def take
      @lock.synchronize do
        fill unless @pid == Process.pid # the parent's producers are the parent's
        raise ClosedError, "the pool of producers" if @closed

        reclaim if @free.empty?
        @free.empty? ? wait : lend
        loan = @loans.fetch(Fiber.current)
        # Wrong options harm nobody else: the number is given back.
        loan.producer = made(loan.producer) if loan.producer.is_a?(Integer)
        loan.producer
      end
    end

    # What is neither free nor lent would be lost, so no interrupt comes in between (nor in the other places like it).
    def lend
      Thread.handle_interrupt(NEVER) { @loans[Fiber.current] = Loan.new(@free.pop, Thread.current) }
    end

    # Who gives back lends to the first who waits, so nobody can come in between.
    def wait
      deadline = Clock.now + @timeout
      waiter = Waiter.new(Fiber.current, Thread.current, ConditionVariable.new)
      @waiting << waiter
      until @loans.key?(waiter.fiber)
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
        loan = @loans.delete(Fiber.current) or return
        serve(loan.producer)
      end
    end

    def serve(producer)
      # Closed by who had borrowed it: the next one gets a new one.
      producer = @producers.key(producer) if producer.is_a?(Producer) && producer.closed?
      waiter = @waiting.shift unless @closed
      return @free.push(producer) && @loans.empty? && @idle.broadcast unless waiter

      @loans[waiter.fiber] = Loan.new(producer, waiter.thread)
      waiter.bell.signal
    end

    # A fiber that is dropped with its thread runs no ensure.
    def reclaim
      dead = @loans.filter_map { |fiber, loan| fiber unless loan.thread.alive? }
      Thread.handle_interrupt(NEVER) { dead.each { |fiber| serve(@loans.delete(fiber).producer) } }
    end

    def made(index)
      @producers[index] = Producer.new(@config, bus: @bus, native: @native, kafka: options(index))
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
