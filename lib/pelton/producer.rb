# frozen_string_literal: true

require_relative "clock"
require_relative "errors"
require_relative "config"
require_relative "event_dispatch"
require_relative "notifications"
require_relative "oauth"
require_relative "poller"
require_relative "producer/buffer"
require_relative "producer/exit_flush"
require_relative "producer/middleware"
require_relative "producer/partitions"
require_relative "producer/producing"
require_relative "producer/renewal"
require_relative "producer/transactions"
require_relative "producer/variant"

module Pelton
  # Writes messages. One per app is enough: it is thread-safe, and librdkafka batches what all threads produce.
  #   Pelton.producer.produce_sync(topic: "orders", payload: order.to_json, key: order.id.to_s)
  # The native client opens with the first use, in each process for itself: in a forked child (a worker of Puma's, say)
  # a producer that the parent used opens anew. What the parent produced stays the parent's, which delivers it once; a
  # delivery handle of the parent's raises ForkError in a child's wait. That suits preforking servers, whose master may
  # well have produced something while it loaded the app; who takes a use before the fork for a mistake sets
  # config.after_fork to :error, and a child's calls raise ForkError. So they always do with a `transactional.id`, for
  # two processes with one id would fence each other.
  class Producer
    include Producing
    include Buffering
    include Variants
    include ExitFlush

    # Ours where librdkafka's own default does not suit: reports before delivery_timeout ends; keys go to the partitions
    # that Java's client would choose.
    DEFAULTS = { "message.timeout.ms" => 150_000, "partitioner" => "murmur2_random" }.freeze

    REPORTS = %w[message.acknowledged message.purged].freeze
    NO_REPORTS = "a producer opened that does not tell of it; subscribe before the first producer opens"
    private_constant :REPORTS, :NO_REPORTS

    # Its name in events: "pelton.producer#1"
    #: () -> String
    attr_reader :name

    # What every message goes through before it is sent.
    #: () -> Middleware
    attr_reader :middleware

    #: (Config, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, bus: Notifications.new, native: nil, kafka: {})
      @config = config
      @bus = bus
      @module = native
      @kafka = kafka.dup.freeze
      @name = EventDispatch.client_name("#{config.client_id}.producer")
      @queue_timeout = config.queue_timeout
      @delivery_timeout = config.delivery_timeout
      # The middleware's callables: the same Array in @middleware and in Producing.
      @chain = []
      @middleware = Middleware.new(@chain)
      @source = self
      @partitioner = nil
      @partitions = Partitions.new(-> { native || Native }) do |topic, timeout|
        of_this_process { client.partition_count(topic, timeout) }
      end
      @buffer = Buffer.new
      # Producers behind variants: {librdkafka's options => Producer}. Replaced as a whole under @lock, read without it
      # (also in a trap).
      @clients = {}.freeze
      # The native client, once somebody produced, who drains it, and the process that opened it. Set under @lock, read
      # without it.
      @native = nil
      @poller = nil
      @owner = nil
      # librdkafka's of the native client, once one was opened: the config does not change any more.
      @options = nil
      @closed = false
      # [native client, its failures when the last flush ended]
      @flushed = nil
      # Was the close published? Guarded by @lock, as @closed.
      @told = false
      @lock = Mutex.new
    end

    # Waits until everything produced so far is delivered. false: it is not within `timeout` seconds, or messages failed
    # since the last flush and nobody waited for them; how many is logged (producer.flush_failed), see also `failures`.
    # What is in the buffer is not produced yet: flush_buffer_sync.
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

    # Runs the block in a transaction and commits it: all messages that this thread (or fiber) produces in it, and the
    # offsets that it marks, count for readers with read_committed, or none of them. Returns the block's value.
    #   producer.transaction do |tx|
    #     tx.produce_async(topic: "paid", payload: order.to_json)
    #     tx.mark_as_consumed(message, subscription)
    #   end
    # Any exception aborts and is raised again; AbortTransaction aborts and gives nil; leaving by return, break or throw
    # aborts and raises TransactionError; Thread#kill aborts. In a transaction, `transaction` joins it. Other threads
    # and fibers wait until it is over, so a block must not wait for one that produces (that one's call ends with
    # WaitTimeout, when Kafka has long ended the transaction). What is produced outside of a block is a transaction of
    # its own.
    # Needs the option "transactional.id", which no other living producer may have. Raises KafkaError (fatal? when the
    # producer was fenced), WaitTimeout after config.transaction_timeout for a step.
    #: () { (Transaction) -> untyped } -> untyped
    def transaction(&block) = transactions.run(&block)

    # Has it a transactional.id?
    #: () -> bool
    def transactional? = (@native ? @native.is_a?(Transactions) : options.key?("transactional.id"))

    # Consumed up to here, if the transaction that runs is committed: see Transaction#mark_as_consumed.
    #: (Message | Batch | Array[Message] | Hash[[String, Integer], Integer], Subscription) -> void
    def mark_as_consumed(what, subscription) = transactions.mark(what, subscription)

    # Messages that failed while no code waited for them, by topic and name of the error, since the producer
    # opened in this process: { "orders" => { UNKNOWN_TOPIC_OR_PART: 3 } }. From any thread; takes no lock.
    #: () -> Hash[String, Hash[Symbol, Integer]]
    def failures = [self, *others].filter_map(&:opened).inject({}) { |all, native| tally(native, all) }

    # Messages of this process that are not yet reported.
    #: () -> Integer
    def pending = (opened&.pending || 0) + others.sum(&:pending)

    # Delivers what is buffered and queued, then closes; returns how many messages it gave up because they were not
    # delivered within `timeout` seconds (0: none; what Kafka refused is in `failures`). From any thread, subscriber or
    # trap (which waits 10 s at most), as often as you like: all callers wait for the same close. Another thread's
    # transaction may end before; in one's own it raises TransactionError.
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: @delivery_timeout)
      @native.closable! if @native.is_a?(Transactions)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || pending
    end

    #: () -> bool
    def closed? = @closed

    # Closes all connections (its variants' too, and that to the bootstrap servers) unless a message is pending; the
    # next use opens them again. False: in use (or not connected, closed, transactional), or not done within `timeout`
    # seconds. From any thread, while others produce: nothing is lost, and what is in the buffer stays there. See also
    # config.idle_disconnect_timeout.
    #: (?timeout: Numeric?) -> bool
    def disconnect(timeout: @delivery_timeout)
      deadline = Clock.deadline(timeout)
      connected = [opened, *others.map(&:opened)].compact.select(&:connected?)
      connected.any? && connected.map { |native| native.disconnect(Clock.left(deadline)) }.all?
    end

    # :initial (not used yet), :connected, :disconnected, :closing or :closed. Takes no lock.
    #: () -> Symbol
    def state
      native = @native
      return native && !@told ? :closing : :closed if @closed
      return :initial unless native && @owner == Process.pid

      native.connected? ? :connected : :disconnected
    end

    def inspect = "#<#{self.class} #{@name} #{state}>"

    # For Producing: raises what sending this message would raise, as far as it alone tells.
    #: (Hash[Symbol, untyped]) -> void
    def check(message) = (@module || Native)::Producer.check(message)

    # For Producing: how many partitions topics have. Raises ClosedError.
    #: () -> Partitions
    def partitions
      raise ClosedError, "producer #{@name}" if @closed

      @partitions
    end

    # For Producing: the partitioner of this producer's client.
    #: () -> String
    def partitioner = options.fetch("partitioner")

    # For Producing: labels of the messages on their way.
    #: () -> Labels
    def labels = @poller.labels

    # For variants: the native client, opened where it is not; or nil where it is not.
    #: () -> untyped
    def client = @native || native
    #: () -> untyped
    def opened = (@native if @owner == Process.pid)

    # For Producing and variants. A forked child met its parent's client: raises, or forgets that client, so that a
    # retry opens one of this process.
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
      closed(undelivered) if native && first_to_tell?
      undelivered
    rescue ForkError => e
      after_fork(e)
      retry
    end

    def others = @clients.each_value

    # No lock: also in a trap.
    def flush_client(native, timeout)
      before = @flushed
      done = native.flush(timeout)
      failures = tally(native)
      @flushed = [native, failures]
      failed = newer(before&.first.equal?(native) ? before.last : {}, failures)
      return true if done && failed.empty?

      pending = done ? 0 : native.pending
      @bus.publish("producer.flush_failed", client: @name, failures: failed, pending: pending)
      false
    end

    def tally(native, all = {})
      native.failures.each { |topic, _, name, count| (all[topic] ||= Hash.new(0))[name] += count }
      all
    end

    # What is in `now` and was not in `before`.
    def newer(before, now)
      now.filter_map do |topic, counts|
        more = counts.filter_map do |name, count|
          count -= before.dig(topic, name).to_i
          [name, count] if count.positive?
        end
        [topic, more.to_h] unless more.empty?
      end.to_h
    end

    def options = @options || options_for_kafka

    # With a bus, it is decided whether statistics are wanted on it.
    def options_for_kafka(bus = nil)
      options = @config.kafka_with(DEFAULTS, @kafka, bus: bus)
      return options unless options.key?("transactional.id")

      defaults = Transactions.defaults(options, DEFAULTS.fetch("message.timeout.ms"))
      @config.kafka_with({ **DEFAULTS, **defaults }, @kafka, bus: bus)
    end

    # The native client, opened by the first caller.
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
      source = @module || Native
      options = @options = options_for_kafka(@bus)
      transactional = options.key?("transactional.id")
      @poller = poller(source)
      opener = ->(now) { open_native(source, now) }
      native = renewed?(options) ? Renewal.new(@name, @config, @bus, options, &opener) : opener.call(options)
      @poller.add(@name, @bus, @buffer)
      @owner = Process.pid
      ExitFlush.watch(self)
      transactional ? Transactions.new(self, @config, @bus, native) : native
    end

    def poller(source) = @config.polling.poller || Poller.shared(source)

    def open_native(source, options)
      polling = @poller.polling(@config.polling.max_time)
      native = Oauth.of(source).open(@name, @config.oauth, @bus) { source::Producer.new(@name, options, polling) }
      native.disconnect_idle(@config.idle_disconnect_timeout)
      native.end_with_process(@config.flush_timeout, @config.flush_timeout, @config.logger.nil?)
      reports = REPORTS.map { |event| @bus.decide(event, NO_REPORTS) }
      native.tell_reports(*reports) if reports.any?
      native
    end

    # A transactional client is replaced after a fatal error, an idempotent one where that is asked for.
    def renewed?(options)
      options.key?("transactional.id") ||
        (@config.reload_idempotent && options["enable.idempotence"].to_s.match?(/\A(true|t|1)\z/i))
    end

    def transactions
      native = self.native
      native.is_a?(Transactions) ? native : raise(TransactionError.new("producer #{@name}", :not_transactional))
    end

    # The one who closed first may have been killed while waiting.
    def first_to_tell? = @lock.synchronize { !@told && (@told = true) }

    def closed(undelivered)
      @bus.publish("producer.closed", client: @name, undelivered: undelivered)
      [Oauth.of(@module || Native), @poller].each { |clients| clients.remove(@name) }
    end
  end
end
