# frozen_string_literal: true

module Pelton
  # What a user writes: one object per partition that this process owns (or as many as the topic's `concurrency` says).
  # It is born when the partition comes, `consume` is called for each batch, on any worker thread but never twice at
  # once; it ends with exactly one of `revoked` (Kafka took the partition) and `shutdown` (the server stops).
  #   class OrdersConsumer < Pelton::Consumer
  #     def consume
  #       messages.each { |message| Order.create!(message.payload) }
  #     end
  #   end
  # Returning normally marks the batch as done (unless the topic says manual_offsets). Raising anything runs it again
  # after the back-off, from the first message that is not marked: with the same message objects, whose `payload` is as
  # the failed attempt left it (see Message), so change copies of it.
  class Consumer
    # Does this class process messages one by one?
    #: () -> bool
    def self.process? = instance_method(:process).owner != Consumer

    # Has this class an `around` of its own?
    #: () -> bool
    def self.around? = instance_method(:around).owner != Consumer

    # Work on `messages`. Whatever it raises is contained and leads to a retry.
    #: () -> void
    def consume = raise(NotImplementedError, "#{self.class}#consume is missing")

    # The other shape, instead of consume: work on one message. When it returns, this message is done, unless it paused
    # or sought; when it raises, this one is tried again, and `attempt` is its own. A stop or a revocation waits for one
    # message only.
    #   def process(message) = Order.create!(message.payload)
    #: (Message) -> void
    def process(_message) = raise(NotImplementedError, "#{self.class}#process is missing")

    # Called once, before the first consume: open what this partition needs. An error is reported, nothing more.
    #: () -> void
    def assigned; end

    # Called last when Kafka took the partition: let go what belongs to it. Marking may still succeed (see revoked?).
    #: () -> void
    def revoked; end

    # Called last when the server stops.
    #: () -> void
    def shutdown; end

    # Called every so many seconds (`every 5` in the topic's routes), also when no message comes and in a pause: on a
    # worker, never beside another method of this object. Ticks that come due while one runs are one, after it. An error
    # is reported, nothing more.
    #: () -> void
    def tick; end

    # Called when all messages that Kafka has of this partition were consumed, each time anew. Only if it is defined,
    # for librdkafka has to look for the end then. Nothing is marked by it; an error is reported, nothing more.
    #: () -> void
    def reached_end; end

    # Surrounds each of the calls above, on the same thread; action: :assigned, :consume, :process (each message),
    # :tick, :reached_end, :revoked or :shutdown. For what each needs before and after: a connection, a trace.
    #   def around(action) = Tracer.span("orders.#{action}") { yield }
    # It has to yield; it may do so again to try once more. Raising, also after the yield, is a failure of the call; so
    # is what it rescued and did not raise again, and a return without a yield (AroundError): nothing counts as done
    # that was not.
    #: (Symbol) { () -> void } -> void
    def around(_action) = yield

    # The messages of this call of consume; empty in the other methods.
    #: () -> Messages
    def messages = @pelton.messages

    #: () -> String
    def topic = @pelton.topic_name
    #: () -> Integer
    def partition = @pelton.partition

    # How often the first message that is not marked is being tried, with this time.
    #: () -> Integer
    def attempt = @pelton.attempt
    #: () -> bool
    def retrying? = attempt > 1

    # How old the first of `messages` was when this call began: seconds since its timestamp (below 0: clocks differ).
    # nil: it has no timestamp, or no consume runs. Of all that Kafka has: see `lags` of App#stats.
    #: () -> Float?
    def consumption_lag = @pelton.consumption_lag

    # How long it had been in this process then: seconds in which it waited for a worker, for its time or for a retry.
    #: () -> Float?
    def processing_lag = @pelton.processing_lag

    # Kafka takes or took the partition: a long consume should come to its end.
    #: () -> bool
    def revoked? = @pelton.revoked?

    # Everything up to this message is done: after a restart, a rebalance or a retry the next one is first. Stored now,
    # committed within auto.commit.interval.ms and at every stop or rebalance. With `concurrency`: everything that this
    # object was given up to it, and stored is the unbroken run of all that is done. true: it is ours and stored (also
    # when a later message is marked already), or of a place that a seek left, which marks nothing; false: the partition
    # is another's, who will get the message again.
    # metadata: a word of yours that is committed with the offset from now on (a new one for an offset that is committed
    # already: with the next offset, or with `!` at once); see offset_metadata. From any thread.
    #: (Message, ?metadata: String?) -> bool
    def mark_as_consumed(message, metadata: nil) = @pelton.mark(message, metadata)

    # The same, and waits until the broker has the commit (config.commit_timeout). Raises KafkaError when it failed.
    #: (Message, ?metadata: String?) -> bool
    def mark_as_consumed!(message, metadata: nil) = @pelton.mark!(message, metadata)

    # The word that was committed with this partition's offset when the partition came here, by whoever had it; nil:
    # none. Asks Kafka the first time (config.commit_timeout), so ask in `assigned`. Raises KafkaError.
    #: () -> String?
    def offset_metadata = @pelton.offset_metadata

    # A word of yours that is committed with the next offset that is marked, also by a return from consume, and with
    # those after it. From any thread; false: the partition is another's. Raises InvalidMessageError.
    #   def consume = store_offset_metadata("#{work(messages)} of #{host}")
    #: (String) -> bool
    def store_offset_metadata(metadata) = @pelton.store_metadata(metadata)

    # No consume of this partition is begun for so many seconds (nil: until `resume`); the one that runs goes on. If it
    # is consume itself that asks, it says that the rest is for later: what is not marked when it returns comes again
    # after the pause, and that is no retry. So mark what is done; in `process`, too, or its message comes again, and
    # again if it pauses each time. Survives errors and the back-off, which is waited for too; ends with the partition.
    # Nothing is fetched again, the group goes on, a bounded part is kept in memory.
    # From any thread; false: the partition ends. Raises ConfigError.
    # at: goes on there, see `seek`. When that raises, the partition is not paused.
    #   messages.each { |message| api.up? ? work(message) : break(pause(60)) }
    #: (?Numeric?, ?at: (Integer | Message | Time | Symbol)?) -> bool
    def pause(seconds = nil, at: nil) = @pelton.pause(seconds, at: at)

    # Ends a pause, if there is one. From any thread.
    #: () -> void
    def resume = @pelton.resume

    #: () -> bool
    def paused? = @pelton.paused?

    # Goes on elsewhere in this partition: at an offset or message, at a Time (the first message that is not older; the
    # end, where there is none), at the :beginning or the :end. The running method goes on; when it ends, nothing of
    # what came before is marked or tried again, and no message from there comes any more. The new place is committed,
    # also one further back, so that it counts after a restart, too (not where the topic marks by hand). Later marks of
    # messages that came before change nothing.
    # Waits for Kafka, up to config.commit_timeout. From any thread; false: the partition ends (what consume did
    # not mark is then for who gets it next). Raises KafkaError: nothing has changed then, unless it is _TIMED_OUT;
    # InvalidMessageError. After _TIMED_OUT, or an interrupt (Timeout, Thread#kill), it may still take place: then it
    # counts from the first message that comes from there on, and the place is not committed.
    #   seek(Time.now - 3600)
    # With `concurrency`: a seek to a message of this call that is not marked moves this call only, and nothing is read
    # again. Any other seek moves the partition. Messages at the new place and behind it are read again, those of all
    # keys. Before it, messages of this call (and of its key, if it has one only) are skipped, and so is what was not
    # read yet. Others that were read and are not finished are still processed, and the commit waits for them.
    #: (Integer | Message | Time | Symbol) -> bool
    def seek(place) = @pelton.seek(place)

    # For what need not be tried again: a copy of the message goes to the topic's `dead_letters`, with the reason (an
    # exception or text) in its headers. Returns when Kafka has it; then it is for you to mark the message or to return.
    # false: the partition is another's, so there is no copy. Raises what Producer#produce_sync raises, and ConfigError
    # where the topic has no dead_letters.
    #   dispatch_to_dead_letters(message, reason: "no such customer")
    #: (Message, ?reason: (Exception | String)?) -> bool
    def dispatch_to_dead_letters(message, reason: nil) = @pelton.dispatch(message, reason)

    # Starts a thread that belongs to this consumer: from `assigned`, or from anywhere in it. It is told of when it dies
    # (error.occurred) and, with restart: true, started again after a back-off. At the consumer's end it is asked to
    # stop before `revoked` or `shutdown` is called, and awaited after that: config.background_timeout at most, then
    # thread.leaked says where it is.
    #   def assigned = background("flush") { |stop| flush until stop.wait(10) }
    # `stop.wait(seconds)` waits and wakes at once when it should end; `stop.stop?` only looks. Returns a handle:
    # `stop(timeout)` ends it sooner, `alive?`. Raises ConfigError where one of this name runs already, ClosedError once
    # the end has begun.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
    def background(name, restart: false, &block) = @pelton.scope.start(name, restart: restart, &block)

    # Runs the block in a transaction and commits it: what it produces, and what it marks with mark_as_consumed, count
    # together or not at all (exactly once, for readers with read_committed). Returns the block's value.
    #   transaction do |tx|
    #     messages.each { |message| tx.produce_async(topic: "paid", payload: work(message)) }
    #     mark_as_consumed(messages.last)
    #   end
    # The producer: given (a pool lends one), else the partition's own where its topic says `transactional "id"`, else
    # the app's. Inside, `producer` is that one. An exception aborts, and messages come again from the first that is not
    # marked; AbortTransaction does so silently, but is a failed attempt for `retries` and what comes after them. A
    # consume that marked in a transaction marks nothing by its return. After an aborted one, a mark that would pass its
    # messages in the same call raises TransactionError (reason :undone), for they would be lost. Raises AssignmentLost
    # when marks are not ours to commit any more, and what Producer#transaction raises.
    #: (?(Producer | ProducerPool)?) { (Producer::Transaction) -> untyped } -> untyped
    def transaction(producer = nil, &block) = @pelton.transaction(producer, &block)

    # The app's producer, on the app's cluster; where the topic is `transactional`, the partition's own, on the group's.
    #: () -> Producer
    def producer = @pelton.producer

    def inspect = "#<#{self.class}#{" #{topic}/#{partition}" if @pelton}>"

    # Ties a new consumer to its partition. For the framework and for tests; one ivar, so that yours are free.
    #: (untyped) -> self
    def attach(slot)
      @pelton = slot
      self
    end
  end
end
