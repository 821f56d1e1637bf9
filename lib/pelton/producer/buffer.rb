# frozen_string_literal: true

require_relative "../runtime/clock"

module Pelton
  class Producer
    # Messages that wait in Ruby for a flush, in order. Messages that a flush could not hand over come back to the
    # front.
    class Buffer
      NEVER = { Object => :never }.freeze
      # A flush takes at most this many messages. A delivery has room for a few more.
      MOST = 500_000
      private_constant :NEVER

      def initialize
        # Messages of process @owner, as Hashes: [{ topic: "orders", payload: "…" }]. Guarded by @lock.
        @messages = []
        @owner = Process.pid
        @lock = Mutex.new
        # True if the buffer accepts no more messages. Guarded by @lock.
        @closed = false
        # What running flushes took: {messages => the flush's fiber}. Guarded by @lock.
        @flushes = {}.compare_by_identity
        # Signaled when a flush ends.
        @ended = ConditionVariable.new
        # Number of messages that a close gave up. Guarded by @lock.
        @lost = 0
      end

      #: () -> Integer
      def size = @lock.synchronize { messages.size }

      # Returns false if the buffer is closed.
      #: (Array[Hash[Symbol, untyped]]) -> bool
      def add(messages) = @lock.synchronize { !@closed && self.messages.concat(messages) && true }

      #: () -> void
      def close = @lock.synchronize { @closed = true }

      # Empties the buffer and returns how many messages it had.
      #: () -> Integer
      def clear = @lock.synchronize { messages.slice!(0..).size }

      # Waits until no other fiber's flush runs, then returns the number of messages. Returns nil if that takes longer
      # than `deadline`.
      #: (Float?) -> Integer?
      def settle(deadline)
        @lock.synchronize do
          while under_way?
            left = Clock.left(deadline)
            return if left&.zero?

            @ended.wait(@lock, left)
          end
          messages.size
        end
      end

      # Drops all messages. Returns how many were given up this way in all.
      #: () -> Integer
      def give_up
        @lock.synchronize do
          count = messages.size # first: in a forked child it forgets what its parent lost
          @lost += count
          @messages = []
          @lost
        end
      end

      # Takes the messages (the first MOST of them) and yields them, with a callable. The block calls that with the
      # delivery before it sends. If the block does not return, or the client was closed meanwhile, messages that did
      # not reach librdkafka's queue come back. Returns nil if the buffer was empty. Flushes do not wait for each other,
      # because one may be in a transaction for which the other waits.
      #: () { (Array[Hash[Symbol, untyped]], ^(Delivery) -> void) -> Delivery } -> Delivery?
      def flush
        messages = delivery = nil
        handed_over = false
        begin
          # An interrupt comes before or after it, never between taking and `begin`.
          Thread.handle_interrupt(NEVER) { messages = take(Fiber.current) }
          return if messages.empty?

          result = yield(messages, ->(made) { delivery = made })
          handed_over = true
          result
        ensure
          Thread.handle_interrupt(NEVER) { flushed(messages, delivery, handed_over) if messages }
        end
      end

      private

      # fiber: the one that flushes.
      def take(fiber)
        @lock.synchronize do
          taken = messages.shift(MOST)
          @flushes[taken] = fiber unless taken.empty?
          taken
        end
      end

      def flushed(taken, delivery, handed_over)
        back = handed_over && !@closed ? [] : left(taken, delivery)
      ensure
        @lock.synchronize do
          @messages = back + messages if back && !back.empty?
          @ended.broadcast if @flushes.delete(taken)
        end
      end

      # Does another fiber flush? Under @lock.
      def under_way?
        messages # a forked child has none of its parent's
        @flushes.each_value.any? { |fiber| !fiber.equal?(Fiber.current) }
      end

      # The messages of this process. Under @lock. A forked child begins with none, because its parent sends its own.
      def messages
        return @messages if @owner == Process.pid

        @owner = Process.pid
        @lost = 0
        @flushes.clear
        @messages = []
      end

      # The messages that were not sent. Sending marks messages that did not fit as _QUEUE_FULL, and messages that came
      # too late for their client as _DESTROY.
      def left(messages, delivery)
        return messages unless delivery

        messages.zip(delivery.reports).filter_map do |message, (*, error)|
          message if error && %i[_QUEUE_FULL _DESTROY].include?(error.name)
        end
      end
    end

    # Producing in two steps: keep messages in Ruby memory, then send all at once.
    module Buffering
      # Seconds that a close waits at most for flushes that end with the client.
      CLOSE_WAIT = 0.5
      private_constant :CLOSE_WAIT

      # Keeps a message in Ruby memory until it is flushed. Takes the keywords of produce_async. `close` and the end of
      # the process flush the buffer, too. Returns self.
      #   producer.buffer(topic: "orders", payload: "…").flush_buffer_sync
      # Middleware and checks run immediately, so this raises InvalidMessageError for wrong arguments, and ClosedError.
      # There is no limit but memory. Callable from every thread.
      #
      # In a transaction, only flushing counts: messages that were flushed in it are aborted with it. Others stay in the
      # buffer.
      #: (topic: String, payload: String?, **untyped) -> self
      def buffer(topic:, payload:, **more)
        keep([prepared({ topic: topic, payload: payload, **more })])
      end

      # Keeps many messages, or none of them if one is not valid. Each is a Hash with the keywords of produce_async.
      # Returns self.
      #   producer.buffer_many(orders.map { |order| { topic: "orders", payload: order.to_json } })
      # Callable from every thread. Raises InvalidMessageError, whose `index` names the message, and ClosedError.
      #: (Array[Hash[Symbol, untyped]]) -> self
      def buffer_many(messages)
        check_array(messages)
        keep(each_of(messages) { |message| prepared(message) })
      end

      # Number of messages in the buffer.
      #   producer.buffered # => 2
      #: () -> Integer
      def buffered = @buffer.size

      # Sends everything in the buffer, in order. Returns one delivery for all of it, or nil if the buffer is empty. At
      # most 500,000 messages per call; the rest waits for the next flush.
      #   delivery = producer.flush_buffer_async
      # Messages that do not get into librdkafka's queue stay in the buffer, before newer ones. Then this raises
      # QueueFullError (after config.queue_timeout, 10 s) or ClosedError. Callable from every thread. Of two concurrent
      # flushes, one may overtake messages that the other could not hand over.
      #: () -> Delivery?
      def flush_buffer_async = flush_buffer(@queue_timeout)

      # Like flush_buffer_async, and waits for the deliveries up to `timeout` seconds (config.delivery_timeout, 180 s).
      # Raises DeliveryError and WaitTimeout as produce_sync does. Messages that Kafka refused do not return to the
      # buffer.
      #   producer.flush_buffer_sync(timeout: 5)
      #: (?timeout: Numeric?) -> Delivery?
      def flush_buffer_sync(timeout: nil)
        Clock.check(timeout)
        delivery = flush_buffer(@queue_timeout, awaited: true)
        delivery && wait(delivery, timeout)
      end

      # Drops the buffer and all messages that have no result yet. Returns how many. Their deliveries fail with
      # _PURGE_QUEUE or _PURGE_INFLIGHT. Messages with _PURGE_INFLIGHT were on their way and may still be delivered.
      #   producer.purge # => 10
      # Callable from every thread.
      #: () -> Integer
      def purge
        dropped = @buffer.clear + others.sum(&:purge)
        native = opened
        return dropped unless native

        dropped += native.pending
        native.purge
        dropped
      end

      private

      def flush_buffer(queue_timeout, awaited: nil)
        @buffer.flush { |messages, report| hand_over(messages, queue_timeout, awaited: awaited, &report) }
      end

      # Opens the client first: then a producer that is garbage collected reports its lost messages.
      def keep(messages)
        opened || of_this_process { client.pending }
        raise ClosedError, "producer #{@name}" unless @buffer.add(messages)

        ExitFlush.watch(self)
        self
      end

      # The message as it is kept: after the middleware, checked, and protected from later changes (except for its
      # label).
      def prepared(message)
        message = known(past_middleware(message)).compact
        message = { payload: nil, **message.to_h { |name, value| [name, name == :label ? value : frozen_copy(value)] } }
        check_partition_key(message[:partition_key], message[:partition])
        check(message.except(:partition_key, :label))
        message.freeze
      end

      # A copy that the caller cannot change, down to the lists of headers. Deeper or endless structures fail the check
      # later.
      def frozen_copy(value, levels = 2)
        return value.frozen? ? value : value.dup.freeze if value.is_a?(String)
        return value if levels.zero?

        case value
        when Array then value.map { |nested| frozen_copy(nested, levels - 1) }.freeze
        when Hash
          value.to_h { |name, nested| [frozen_copy(name, levels - 1), frozen_copy(nested, levels - 1)] }.freeze
        else value
        end
      end

      # Before a close: waits for running flushes and hands over the rest.
      def flush_rest(deadline)
        @buffer.close
        until (waiting = @buffer.settle(deadline)) == 0
          flush_buffer([Clock.left(deadline), @queue_timeout].compact.min)
          break unless waiting
        end
      rescue Error => e
        @bus.publish("error.occurred", error: e, source: "producer.buffer", client: @name)
      end

      # After a close: drops messages that could not be handed over. Returns how many were lost.
      def give_up_rest
        @buffer.settle(Clock.now + CLOSE_WAIT)
        @buffer.give_up
      end
    end
  end
end
