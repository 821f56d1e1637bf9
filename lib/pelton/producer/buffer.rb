# frozen_string_literal: true

require_relative "../clock"

module Pelton
  class Producer
    # Messages that wait in Ruby for a flush, in their order. What a flush could not hand over comes back to the front.
    class Buffer
      NEVER = { Object => :never }.freeze
      # So many messages a flush takes at most: a delivery has a little more places.
      MOST = 500_000
      private_constant :NEVER

      def initialize
        # Messages of process @owner, as Hashes. Guarded by @lock.
        @messages = []
        @owner = Process.pid
        @lock = Mutex.new
        # Nothing more is taken. Guarded by @lock.
        @closed = false
        # What flushes under way took: {messages => its fiber}. Guarded by @lock.
        @flushes = {}.compare_by_identity
        # A flush ended.
        @ended = ConditionVariable.new
        # Messages that a close gave up. Guarded by @lock.
        @lost = 0
      end

      #: () -> Integer
      def size = @lock.synchronize { messages.size }

      # false: it is closed.
      #: (Array[Hash[Symbol, untyped]]) -> bool
      def add(messages) = @lock.synchronize { !@closed && self.messages.concat(messages) && true }

      #: () -> void
      def close = @lock.synchronize { @closed = true }

      # Empties it; returns how many there were.
      #: () -> Integer
      def clear = @lock.synchronize { messages.slice!(0..).size }

      # Waits until no flush of others is under way, then returns how many messages there are; nil: not by `deadline`.
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

      # Empties it for good; returns how many messages were given up so, in all.
      #: () -> Integer
      def give_up
        @lock.synchronize do
          count = messages.size # first: in a forked child it forgets what its parent lost
          @lost += count
          @messages = []
          @lost
        end
      end

      # Yields what there is (the first of it, where that is more than MOST) and a callable, which the block calls with
      # the delivery before it sends. When the block does not return, what did not reach librdkafka's queue comes back;
      # so it does when the client was closed meanwhile. nil where there was nothing. Flushes do not wait for each
      # other: one may be in a transaction that the other waits for.
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

      # fiber: whose flush it is.
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

      # Under @lock.
      def under_way?
        messages # a forked child has none of its parent's
        @flushes.each_value.any? { |fiber| !fiber.equal?(Fiber.current) }
      end

      # Under @lock. A forked child begins with none: its parent sends its own.
      def messages
        return @messages if @owner == Process.pid

        @owner = Process.pid
        @lost = 0
        @flushes.clear
        @messages = []
      end

      # Sending marks what it did not come to as refused, and what came too late for its client as destroyed.
      def left(messages, delivery)
        return messages unless delivery

        messages.zip(delivery.reports).filter_map do |message, (*, error)|
          message if error && %i[_QUEUE_FULL _DESTROY].include?(error.name)
        end
      end
    end

    # Producing in two steps: keep messages in Ruby, then send all at once.
    module Buffering
      # Seconds that a close waits at most for flushes that the client's end ends.
      LAST_WORDS = 0.5
      private_constant :LAST_WORDS

      # Keeps a message, with the keywords of produce_async, until it is flushed; `close` flushes, too. Middleware and
      # checks run here, so what is kept is sound; only memory limits how much that is. Returns self. Opens the client.
      # Keeping a message is no part of a transaction, flushing is: what is only kept when one is aborted stays in the
      # buffer, for the next flush (or close); what was flushed in it is undone with it.
      #   producer.buffer(topic: "orders", payload: "…").flush_buffer_sync
      #: (topic: String, payload: String?, **untyped) -> self
      def buffer(topic:, payload:, **more)
        keep([sound({ topic: topic, payload: payload, **more })])
      end

      # The same for many; all or, when one is refused, none.
      #: (Array[Hash[Symbol, untyped]]) -> self
      def buffer_many(messages)
        check_array(messages)
        keep(each_of(messages) { |message| sound(message) })
      end

      # How many messages wait in the buffer.
      #: () -> Integer
      def buffered = @buffer.size

      # Hands everything in the buffer over, in order: one delivery for all, nil for an empty buffer. Of more than
      # 500,000 messages it takes the first so many, and what is left waits for the next flush (or close). What does not
      # get into librdkafka's queue (QueueFullError after config.queue_timeout, ClosedError, Thread#kill …) stays in the
      # buffer, before everything that came since. From any thread; a flush beside another one may overtake what that
      # could not hand over.
      #: () -> Delivery?
      def flush_buffer_async
        flush_buffer(@queue_timeout)
      end

      # The same, and waits for the deliveries as produce_sync does. What Kafka refuses (DeliveryError) does not come
      # back to the buffer.
      #: (?timeout: Numeric?) -> Delivery?
      def flush_buffer_sync(timeout: nil)
        Clock.check(timeout)
        delivery = flush_buffer_async
        delivery && wait(delivery, timeout)
      end

      # Forgets what is in the buffer and fails what is queued or on its way (the deliveries say _PURGE_QUEUE or
      # _PURGE_INFLIGHT; the latter may still be delivered). Returns how many messages that are.
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

      def flush_buffer(queue_timeout)
        @buffer.flush { |messages, told| hand_over(messages, queue_timeout, &told) }
      end

      # Opens the client: a collected producer tells of what it had open, with its buffer.
      def keep(messages)
        opened || of_this_process { client.pending }
        raise ClosedError, "producer #{@name}" unless @buffer.add(messages)

        ExitFlush.watch(self)
        self
      end

      # A message as it is kept: past the middleware, checked, and not to be changed by others (but for its label).
      def sound(message)
        message = known(past_middleware(message)).compact
        message = { payload: nil, **message.to_h { |name, value| [name, name == :label ? value : own(value)] } }
        check_partition_key(message[:partition_key], message[:partition])
        check(message.except(:partition_key, :label))
        message.freeze
      end

      # What nobody else can change: as deep as the lists of headers. What is deeper, or has no end, the check refuses.
      def own(value, levels = 2)
        return value.frozen? ? value : value.dup.freeze if value.is_a?(String)
        return value if levels.zero?

        case value
        when Array then value.map { |one| own(one, levels - 1) }.freeze
        when Hash then value.to_h { |name, one| [own(name, levels - 1), own(one, levels - 1)] }.freeze
        else value
        end
      end

      # Before a close: waits for flushes under way, and hands over what is left.
      def flush_rest(deadline)
        @buffer.close
        until (waiting = @buffer.settle(deadline)) == 0
          flush_buffer([Clock.left(deadline), @queue_timeout].compact.min)
          break unless waiting
        end
      rescue Error => e
        @bus.publish("error.occurred", error: e, source: "producer.buffer", client: @name)
      end

      # After it: what could not be handed over is lost, which is told. Returns how many that are.
      def give_up_rest
        @buffer.settle(Clock.now + LAST_WORDS)
        @buffer.give_up
      end
    end
  end
end
