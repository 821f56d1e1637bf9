# frozen_string_literal: true

require_relative "errors"

module Pelton
  # The parent of your consumer classes. Pelton makes one object for each partition that this process owns, or as many
  # as the topic's `concurrency` says; then the messages of a key may come to different ones. The object lives as long
  # as the process owns the partition. Pelton calls its methods on worker threads, never two of one object at the same
  # time. The last call is either `revoked` or `shutdown`.
  #   class OrdersConsumer < Pelton::Consumer
  #     def consume
  #       messages.each { |message| Order.create!(message.payload) }
  #     end
  #   end
  # When `consume` returns, its messages are marked as consumed (unless the topic has `manual_offsets`). When it raises,
  # the messages that are not marked are retried after the back-off. A retry gets the same message objects, with
  # `payload` as the failed attempt left it (see Message), so change copies of it.
  class Consumer
    # Always raises ConsumerError, because an object needs a partition. Pelton makes consumers; a test gets one by
    # `consumer_for("orders")` (pelton/testing).
    #   OrdersConsumer.new # raises ConsumerError
    #: (*untyped) -> bot
    def self.new(*) = raise(ConsumerError, self)

    # For Pelton: a consumer of this partition.
    #: (untyped) -> Consumer
    def self.build(context)
      allocate.tap do |consumer|
        consumer.attach(context)
        consumer.send(:initialize)
      end
    end

    # true: this class processes messages one by one.
    #   OrdersConsumer.process? # => false
    #: () -> bool
    def self.process? = instance_method(:process).owner != Consumer

    # true: this class has an `around` of its own.
    #   OrdersConsumer.around? # => false
    #: () -> bool
    def self.around? = instance_method(:around).owner != Consumer

    # Define this method to work on `messages`, a batch of one partition. Any error leads to a retry.
    #   def consume = Order.insert_all(messages.payloads)
    #: () -> void
    def consume = raise(NotImplementedError, "#{self.class}#consume is not defined")

    # Define this method, instead of `consume`, to work on one message at a time. When it returns, the message is
    # marked, unless it called pause or seek, or `revoked?` answered true. When it raises, this message is retried;
    # `attempt` counts for it. A shutdown or a revocation waits for one message only.
    #   def process(message) = Order.create!(message.payload)
    #: (Message) -> void
    def process(_message) = raise(NotImplementedError, "#{self.class}#process is not defined")

    # Called once, before the first message. An error is reported, and nothing else happens.
    #   def assigned = @prices = Prices.load(partition)
    #: () -> void
    def assigned; end

    # Called last when Kafka takes the partition away. Marks still count, and are committed before the partition's next
    # owner begins. They return false once config.revocation_timeout (30 s) is over, or if the partition was lost. An
    # error is reported.
    #   def revoked = @prices.close
    #: () -> void
    def revoked; end

    # Called last when the server stops. Marks still count. An error is reported.
    #   def shutdown = @prices.close
    #: () -> void
    def shutdown; end

    # Called every `tick_every` seconds (set in the route), also when no message comes and during a pause. Ticks that
    # come due while a method runs become one. An error is reported.
    #   def tick = flush if @buffer.any?
    #: () -> void
    def tick; end

    # Called each time that all messages of this partition in Kafka were consumed. Only if you define it, because
    # librdkafka has to look for the end then. It marks nothing; an error is reported.
    #   def reached_end = Report.publish(topic, partition)
    #: () -> void
    def reached_end; end

    # Called around each of the methods above, on the same thread. action: :assigned, :consume, :process (each message),
    # :tick, :reached_end, :revoked or :shutdown. Use it for what every call needs, such as a connection or a trace. It
    # sees the `messages` of `consume`, the `message` of `process`, and the outcome: what the yield returns or raises.
    #   def around(action) = Tracer.span("orders.#{action}") { yield }
    # It must yield; a second yield runs the method again. The call failed if `around` raises, if the method raised
    # (also if `around` rescues that), or if `around` returns without a yield (AroundError).
    #: (Symbol) { () -> void } -> void
    def around(_action) = yield

    # The messages of this `consume` call; empty in the other methods.
    #   messages.size # => 100
    #: () -> Messages
    def messages = @pelton.messages

    # The message of this `process` call, for `around` and for helpers; nil in the other methods.
    #   def around(action) = Log.tagged(message&.offset) { yield }
    #: () -> Message?
    def message = @pelton.message

    # The topic of this object; for a retry topic, its name.
    #   topic # => "orders"
    #: () -> String
    def topic = @pelton.topic_name
    # The partition of this object.
    #   partition # => 3
    #: () -> Integer
    def partition = @pelton.partition

    # The number of this attempt for the first message that is not marked: 1 at first. In a retry topic it counts on.
    #   raise "give up" if attempt > 3
    #: () -> Integer
    def attempt = @pelton.attempt
    # true: this is not the first attempt.
    #   Order.insert_all(messages.payloads) unless retrying?
    #: () -> bool
    def retrying? = attempt > 1

    # Seconds between the timestamp of the first of `messages` and the begin of this call; negative if clocks differ.
    # nil: it has no timestamp, or this is not `consume`. For the lag of the whole partition see App#stats.
    #   consumption_lag # => 0.4
    #: () -> Float?
    def consumption_lag = @pelton.consumption_lag

    # Seconds that the first of `messages` waited inside this process before this call: for a worker, for its time or
    # for a retry. nil outside of `consume`.
    #   processing_lag # => 0.02
    #: () -> Float?
    def processing_lag = @pelton.processing_lag

    # true: Kafka takes the partition away, or has done so. A long call should end soon: mark what is done, and the
    # partition's next owner gets the rest. Once `revoked?` has answered true to a call of `consume` or `process`, its
    # return marks nothing, whatever it asked for, also if it only logs the answer. What it has not marked itself comes
    # again. If it marked nothing, the log warns (consumer.unmarked), but not with manual_offsets. From any thread; only
    # the answer to the thread of the call has this effect.
    #   messages.each do |message|
    #     break if revoked?
    #     work(message)
    #     mark_as_consumed(message)
    #   end
    #: () -> bool
    def revoked? = @pelton.revoked?

    # Marks everything up to this message as consumed: after a restart, a rebalance or a retry, the next message is the
    # first. Committed within auto.commit.interval.ms (5 s), and at every stop or rebalance. With `concurrency` it marks
    # what this object got up to the message; committed is the unbroken run of all that is marked.
    #   mark_as_consumed(messages.first) # => true
    # Returns true if the mark counts, also if a later message is marked already. Returns false if the message comes
    # again: the partition has left this process, or a seek has left the place at which the message was read. In a
    # transaction it then raises AssignmentLost or TransactionError (reason :seek), which aborts the transaction. After
    # a seek, only messages before the new, committed place count as marked. metadata: a String that is committed with
    # the offset from now on; see offset_metadata. From any thread. Raises InvalidMessageError for a message of another
    # partition.
    #: (Message, ?metadata: String?) -> bool
    def mark_as_consumed(message, metadata: nil) = @pelton.mark(message, metadata)

    # The same as mark_as_consumed, but waits until the broker has the commit, up to config.commit_timeout (30 s).
    # Raises KafkaError if the commit failed.
    #   mark_as_consumed!(message)
    #: (Message, ?metadata: String?) -> bool
    def mark_as_consumed!(message, metadata: nil) = @pelton.mark!(message, metadata)

    # The metadata that was committed with this partition's offset before the partition came here; nil: none. The first
    # call asks Kafka and waits up to config.commit_timeout, so use it in `assigned`. Raises KafkaError.
    #   def assigned = @position = JSON.parse(offset_metadata || "{}")
    #: () -> String?
    def offset_metadata = @pelton.offset_metadata

    # Sets the metadata for the next offset that is marked, also by a return from `consume`, and for later ones. Returns
    # false if the partition has left this process. From any thread. Raises InvalidMessageError.
    #   store_offset_metadata("#{count} rows")
    #: (String) -> bool
    def store_offset_metadata(metadata) = @pelton.store_metadata(metadata)

    # Starts no further `consume` of this partition for this many seconds (nil: until `resume`). The running call goes
    # on.
    #   messages.each { |message| api.up? ? work(message) : break(pause(60)) }
    # If the call itself pauses, its return marks nothing. What is not marked by hand comes again after the pause,
    # without counting as a retry. So mark what is done. `process` gets no further message of the batch before the pause
    # ends. A back-off goes on during a pause. The group keeps the partition, fetched messages stay in memory, and the
    # pause ends with the partition.
    # at: continues there after the pause, see `seek`; if that raises, the partition is not paused.
    # From any thread. Returns false if the partition is ending. Raises ConfigError for a negative time.
    #: (?Numeric?, ?at: (Integer | Message | Time | Symbol)?) -> bool
    def pause(seconds = nil, at: nil) = @pelton.pause(seconds, at: at)

    # Ends a pause. From any thread.
    #   Thread.new { api.wait_until_up; resume }
    #: () -> void
    def resume = @pelton.resume

    # true: the partition is paused. From any thread.
    #   resume if paused?
    #: () -> bool
    def paused? = @pelton.paused?

    # Continues elsewhere in this partition: at an offset, a message, a Time (the first message that is not older, or
    # the end), :beginning or :end.
    #   seek(Time.now - 3600)
    # The running method goes on. When it ends, earlier messages are no longer marked or retried, and `process` gets no
    # further message of the batch. The new position is committed, also if it is further back. With manual_offsets it is
    # not, but marks start again there: after seek(10), a mark of message 10 commits 11, even if 50 was committed.
    # Waits for Kafka up to config.commit_timeout (30 s). From any thread. Returns false if the partition is ending; its
    # next owner then gets what was not marked. Raises InvalidMessageError, and KafkaError, after which nothing changed.
    # Only after _TIMED_OUT, or an interrupt (Timeout, Thread#kill), the seek may still take place; it is not committed
    # then. Raises TransactionError in the block of `transaction`, which would not be committed: seek after it.
    #
    # With `concurrency`, a seek to an unmarked message of this call moves this call only, and nothing is read again.
    # Any other seek moves the partition: messages from the new position on are read again for all keys. Messages before
    # it that were not read yet, the rest of this call, and the message at which the partition stopped (`then: :stop`)
    # are skipped. Other messages that were read are still processed, and the commit waits for them.
    #
    # A seek does not recall a dead letter that is on its way. If the new position is that message or an earlier one,
    # the message comes again, and a second letter follows if it fails again. Both have the same place in `origin`.
    #: (Integer | Message | Time | Symbol) -> bool
    def seek(position) = @pelton.seek(position)

    # Sends a copy of a message to the topic's `dead_letters` and waits until Kafka has it. reason: an exception or a
    # text for its headers. It does not mark the message: mark it, or return.
    #   dispatch_to_dead_letters(message, reason: "no such customer") # => true
    # This is a synchronous call of your method, so it occupies its worker while it waits, up to
    # config.delivery_timeout. The copies that Pelton sends after a failure occupy none.
    # In a transaction of a `transactional` topic, the copy is part of the transaction, and message.dead_lettered is
    # published after the commit. Returns false, and sends nothing, if the partition has left this process. Raises what
    # Producer#produce_sync raises, and ConfigError if the topic has no dead_letters.
    #: (Message, ?reason: (Exception | String)?) -> bool
    def dispatch_to_dead_letters(message, reason: nil) = @pelton.dispatch(message, reason)

    # Starts a thread that ends with this consumer object. Call it in `assigned` or in any other method.
    #   def assigned = background("flush") { |stop| flush until stop.wait(10) } # seconds
    # `stop.wait(seconds)` waits, and returns true at once when the thread should end; `stop.stop?` only looks. An error
    # in the block is reported; with restart: true the block then starts again after a back-off. At the end of the
    # consumer the thread is asked to stop before `revoked` or `shutdown` runs. It has config.background_timeout (5 s)
    # to end; then thread.leaked reports it. Returns a Background with `stop(timeout)` and `alive?`. Raises ConfigError
    # if one with this name runs, and ClosedError if the end has begun.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
    def background(name, restart: false, &block) = @pelton.scope.start(name, restart: restart, &block)

    # Runs the block in a transaction and commits it. What it produces, and what it marks with mark_as_consumed, counts
    # together or not at all, for readers with read_committed. Returns the value of the block.
    #   transaction do |tx|
    #     messages.each { |message| tx.produce_async(topic: "paid", payload: work(message)) }
    #     mark_as_consumed(messages.last)
    #   end
    # The producer is the given one (a pool checks one out), otherwise the partition's own if the topic has
    # `transactional "id"`, otherwise the app's. Inside the block, `producer` returns it.
    # An exception aborts the transaction, and the messages that are not marked come again. AbortTransaction does so
    # without an error, but still counts as a failed attempt. If transactions marked only some messages of a call, the
    # next call gets the others. After an aborted transaction, a mark in the same call that would skip its messages
    # raises TransactionError (reason :undone). Raises AssignmentLost if the partition has left this process, and what
    # Producer#transaction raises.
    #: (?(Producer | ProducerPool)?) { (Producer::Transaction) -> untyped } -> untyped
    def transaction(producer = nil, &block) = @pelton.transaction(producer, &block)

    # The app's producer, on the app's cluster. If the topic is `transactional`: the partition's own, on the group's
    # cluster.
    #   producer.produce_async(topic: "paid", payload: "…")
    #: () -> Producer
    def producer = @pelton.producer

    def inspect = "#<#{self.class}#{" #{topic}/#{partition}" if @pelton}>"

    # For Pelton: ties a consumer to its partition. It uses one instance variable, so that all other names are
    # free.
    #: (untyped) -> self
    def attach(context)
      @pelton = context
      self
    end
  end
end
