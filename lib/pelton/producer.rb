# frozen_string_literal: true

require_relative "runtime/clock"
require_relative "errors"
require_relative "config"
require_relative "runtime/event_dispatch"
require_relative "runtime/notifications"
require_relative "poller"
require_relative "producer/buffer"
require_relative "producer/client_factory"
require_relative "producer/exit_flush"
require_relative "producer/failure_counts"
require_relative "producer/middleware"
require_relative "producer/partitions"
require_relative "producer/producing"
require_relative "producer/transactional"
require_relative "producer/variant"

module Pelton
  # Publishes messages to Kafka. One producer per app is enough: it is thread-safe, and librdkafka batches the messages
  # of all threads.
  #   Pelton.producer.produce_sync(topic: "orders", payload: order.to_json, key: order.id.to_s)
  #
  # The native client opens on first use, once per process. A forked child, such as a Puma worker, opens its own. The
  # parent still delivers what it produced before the fork, once. Waiting in the child for such a delivery raises
  # ForkError. With `config.after_fork = :error`, every use in the child raises ForkError. A producer with a
  # `transactional.id` always does that, because two processes with one id would fence each other.
  class Producer
    include Producing
    include Transactional
    include Buffering
    include Variants
    include ExitFlush

    # Where librdkafka's own defaults do not suit. Messages fail before delivery_timeout ends. Keys go to the partitions
    # that Kafka's Java client would select.
    DEFAULTS = { "message.timeout.ms" => 150_000, "partitioner" => "murmur2_random" }.freeze

    # The producer's name in events and logs: "pelton.producer#1".
    #   producer.name # => "billing.producer#1", with config.client_id = "billing"
    #: () -> String
    attr_reader :name

    # The list of middleware that every message passes before it is sent: the app's, which all of its producers share.
    #   producer.middleware.append(->(message) { message.merge(headers: { "trace" => "42" }) })
    #: () -> Middleware
    attr_reader :middleware

    # Pelton.producer and App#producer make one for you. config: the app's settings. bus: where events are published.
    # kafka: options of librdkafka for this producer only. native: a replacement of the native module, for tests. facts:
    # of the partition whose own producer it is, for the events of its transactions. moves: the partition may move to
    # another process, whose producer then fences this one: that is no failure. middleware: the app's list.
    #: (Config, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped], ?facts: Hash[Symbol, untyped],
    #:  ?moves: bool, ?middleware: Middleware) -> void
    def initialize(config, bus: Notifications.new, native: nil, kafka: {}, facts: {}, moves: false,
                   middleware: Middleware.new)
      @config = config
      @bus = bus
      @module = native
      @name = EventDispatch.client_name("#{config.client_id}.producer")
      @client_factory = ClientFactory.new(self, config, bus, kafka, native, facts, moves)
      @queue_timeout = config.queue_timeout
      @delivery_timeout = config.delivery_timeout
      @middleware = middleware
      # The middleware's callables: the same Array in @middleware and in Producing.
      @chain = middleware.chain(@tracer = config.tracer)
      @source = self
      @partitioner = nil
      @partitions = Partitions.new(@client_factory.method(:native)) do |topic, timeout|
        of_this_process { client.partition_count(topic, timeout) }
      end
      @buffer = Buffer.new
      # Producers behind variants: {librdkafka's options => Producer}. Replaced as a whole under @lock, read without it
      # (also in a trap).
      @clients = {}.freeze
      # The native client once it is open, the poller that drains it, and the process that opened it. Set under @lock,
      # read without it.
      @native = @poller = @owner = nil
      # librdkafka's options of the native client, once it is open. The config does not change after that.
      @options = nil
      @closed = false
      @failure_counts = FailureCounts.new
      # Is producer.closed published? Guarded by @lock, like @closed.
      @closed_published = false
      @lock = Mutex.new
    end

    # Waits until everything produced so far is delivered. Returns true if it is, and false if `timeout` seconds are
    # over (config.delivery_timeout, 180 s) or messages failed since the last flush and no thread waited for them.
    # `failures` and the log then say which. Does not flush the buffer: use flush_buffer_sync for that.
    #   producer.flush(timeout: 10) # => true
    # Callable from every thread. Raises ForkError in a forked child if config.after_fork is :error.
    #: (?timeout: Numeric?) -> bool
    def flush(timeout: @delivery_timeout)
      deadline = Clock.deadline(timeout)
      native = @native
      flushed = native ? flush_client(native, timeout) : true
      others.all? { |other| other.flush(timeout: Clock.left(deadline)) } && flushed
    rescue ForkError => e
      after_fork(e)
      retry
    end

    # Counts messages that failed while no thread waited for them, by topic and error, since the producer opened in this
    # process.
    #   producer.failures # => { "orders" => { UNKNOWN_TOPIC_OR_PART: 3 } }
    # Callable from every thread; takes no lock.
    #: () -> Hash[String, Hash[Symbol, Integer]]
    def failures = [self, *others].filter_map(&:opened).inject({}) { |all, native| FailureCounts.of(native, all) }

    # Number of messages of this process without a result.
    #   producer.pending # => 0
    # Callable from every thread; takes no lock.
    #: () -> Integer
    def pending = (opened&.pending || 0) + others.sum(&:pending)

    # Delivers what is buffered and queued, then closes the client. Returns how many messages it gave up because
    # `timeout` seconds (config.delivery_timeout, 180 s) were over. 0 means none. Messages that Kafka refused before are
    # in `failures`.
    #   producer.close(timeout: 10) # => 0
    # Callable from every thread, subscriber and trap, and more than once: all callers wait for the same close. In a
    # trap it waits 10 s at most. It lets another thread's transaction finish. In a transaction of the caller's own it
    # raises TransactionError.
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: @delivery_timeout)
      @native.closable! if @native.is_a?(Transactions)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || pending
    end

    # Has `close` begun? Produce calls then raise ClosedError.
    #   Pelton.producer.closed? # => false
    #: () -> bool
    def closed? = @closed

    # Closes all connections, unless a message is pending. The next use opens them again. Returns false if the producer
    # is in use, not connected, closed or transactional, or if it takes longer than `timeout` seconds. No message is
    # lost, and the buffer keeps its messages. See also config.idle_disconnect_timeout.
    #   producer.disconnect # => true
    # Callable from every thread, while others produce.
    #: (?timeout: Numeric?) -> bool
    def disconnect(timeout: @delivery_timeout)
      deadline = Clock.deadline(timeout)
      connected = [opened, *others.map(&:opened)].compact.select(&:connected?)
      connected.any? && connected.map { |native| native.disconnect(Clock.left(deadline)) }.all?
    end

    # :initial (not used yet), :open (its brokers may be away), :disconnected, :closing or :closed. Takes no lock.
    #   Pelton.producer.state # => :open
    #: () -> Symbol
    def state
      native = @native
      return native && !@closed_published ? :closing : :closed if @closed
      return :initial unless native && @owner == Process.pid

      native.connected? ? :open : :disconnected
    end

    def inspect = "#<#{self.class} #{@name} #{[state, *(activity if state == :open)].join(", ")}>"

    # For Producing: raises what sending this message would raise immediately.
    #: (Hash[Symbol, untyped]) -> void
    def check(message) = Native.for(@module)::Producer.check(message)

    # For Producing: the numbers of partitions of topics. Raises ClosedError.
    #: () -> Partitions
    def partitions
      raise ClosedError, "producer #{@name}" if @closed

      @partitions
    end

    # For Producing: the partitioner of this producer's client.
    #: () -> String
    def partitioner = options.fetch("partitioner")

    # For Producing: labels of the messages that have no result yet.
    #: () -> Labels
    def labels = @poller.labels

    # For variants: the native client; opens it if needed.
    #: () -> untyped
    def client = @native || native
    # For variants: the native client of this process, or nil if it is not open.
    #: () -> untyped
    def opened = (@native if @owner == Process.pid)

    # For Producing and variants. Called when a forked child uses its parent's client. Raises the error, or forgets that
    # client, so that the next attempt opens one for this process.
    #: (ForkError) -> void
    def after_fork(error)
      raise error if @config.after_fork == :error || @native.is_a?(Transactions)

      @lock.synchronize { @native = nil unless @owner == Process.pid } # another thread may have been faster
    end

    private

    def shut(timeout)
      deadline = Clock.deadline(timeout)
      flush_rest(deadline) unless @closed
      native = @lock.synchronize do
        @closed = true
        @native
      end
      undelivered = others.sum { |other| other.close(timeout: Clock.left(deadline)) }
      undelivered += native.close(Clock.left(deadline)) if native
      undelivered += give_up_rest
      closed(undelivered) if native && first_to_close?
      undelivered
    rescue ForkError => e
      after_fork(e)
      retry
    end

    def others = @clients.each_value

    # Takes no lock, so it works in a trap.
    def flush_client(native, timeout)
      done = nil
      failed = @failure_counts.since_last_flush(native) { done = native.flush(timeout) }
      return true if done && failed.empty?

      pending = done ? 0 : native.pending
      @bus.publish("producer.flush_failed", client: @name, failures: failed, pending: pending)
      false
    end

    # For `inspect`: what waits, and why no message gets through.
    def activity
      [*("#{pending} pending" if pending.positive?),
       *opened&.last_error&.then { |error| "last error: #{error.message}" }]
    end

    def options = @options || @client_factory.options

    # The native client. The first caller opens it.
    def native
      opened = false
      native = @lock.synchronize do
        raise ClosedError, "producer #{@name}" if @closed

        @native ||= (opened = true) && open
      end
      @bus.publish("producer.opened", client: @name) if opened
      native
    end

    def open
      @config.freeze
      @options = @client_factory.options(@bus)
      @poller = @client_factory.poller
      native = @client_factory.open(@options, @poller)
      @poller.add(@name, @bus, @buffer, moves: @client_factory.moves)
      @owner = Process.pid
      ExitFlush.watch(self)
      native
    end

    # Returns true to one caller only, also if the first one was killed while it waited.
    def first_to_close? = @lock.synchronize { !@closed_published && (@closed_published = true) }

    def closed(undelivered)
      @bus.publish("producer.closed", client: @name, undelivered: undelivered)
      @client_factory.closed
      @poller.remove(@name)
    end
  end
end
