# frozen_string_literal: true

require "forwardable"
require_relative "../../background/scope"
require_relative "../../batch"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../runtime/threads"
require_relative "../exactly_once"
require_relative "../failures/forwarding"
require_relative "settling"

module Pelton
  module Consuming
    # A place of a partition at which one job runs at a time, with a consumer instance of its own: a partition has one,
    # or as many as its topic's `concurrency` says. It runs its jobs; how they end is in Settling. And it is what its
    # consumer sees of the framework (Consumer#attach).
    class Executor
      extend Forwardable
      include Settling

      attr_reader :coordinator
      # The job in the queue or on a worker; written under the coordinator's lock.
      attr_accessor :job

      def_delegators :@coordinator, :topic_name, :partition, :paused?, :offset_metadata, :store_metadata
      def_delegators :@exactly_once, :producer

      # The threads of its consumer.
      attr_reader :scope

      #: (Coordinator, Routing::Topic, Flow, Notifications, Numeric) -> void
      def initialize(coordinator, topic, flow, bus, background_timeout)
        @coordinator = coordinator
        @topic = topic
        @flow = flow
        @bus = bus
        place = "#{topic.name}/#{coordinator.partition}"
        @scope = Background::Scope.new(place, coordinator.facts, bus: bus, timeout: background_timeout)
        @exactly_once = ExactlyOnce.new(coordinator, topic) { first_unfinished }
        @forwarding = Forwarding.new(topic, coordinator.facts, bus, @exactly_once)
        @none = Batch::Part.new(topic.name, coordinator.partition, [].freeze)
        # Since when a worker has the job (monotonic seconds), and which thread; or nil.
        @job = @since = @thread = nil
        # Since when it has been at its present call: the same, or since the message of `process` that is its turn.
        @called = nil
        # Waits a tick for the job to end?
        @tick = false
        # The user's object, used by the running job only; nil before :assigned made it, and after its end.
        @consumer = nil
        # Has its class an `around`? Does it process messages one by one?
        @around = @process = false
        # How often :assigned tried to make it.
        @attempts_to_build = 0
        # When it is tried again.
        @wake_at = nil
      end

      # --- the consumer's side -------------------------------------------------------------------------------------

      # What it is given by the running job.
      #: () -> Messages
      def messages = @job&.messages || @none

      #: () -> Integer
      def attempt = @coordinator.attempt(@job) + before

      #: () -> Float?
      def consumption_lag = @job&.consumption_lag

      #: () -> Float?
      def processing_lag = @job&.processing_lag

      # See Consumer#revoked?. A consume that knows may stop early, so its return marks nothing from then on.
      #: () -> bool
      def revoked? = @coordinator.revoked?.tap { |revoked| leave_rest if revoked }

      # See Consumer#pause. Where consume itself asks for it, what it leaves unmarked is for later. The pause comes
      # first, or others could begin at the new place; when the seek fails, nothing is paused.
      #: (Numeric?, ?at: (Integer | Message | Time | Symbol)?) -> bool
      def pause(seconds, at: nil)
        deadline = Clock.deadline(seconds)
        left = ours? && @job&.paused
        before = nil
        leave_rest
        return false unless @coordinator.change_state { |state| before = [state.pause(deadline)] }

        at.nil? || seek(at).tap { before = nil }
      rescue Exception # rubocop:disable Lint/RescueException -- whatever ends the seek, also an interrupt
        if before
          @coordinator.change_state { |state| state.undo_pause(deadline, *before) }
          @job.paused = left if ours? && @job&.slice
        end
        raise
      end

      #: () -> void
      def resume = @coordinator.change_state(&:resume)

      # See Consumer#seek. Where the end of the partition came first, consume has left its rest all the same.
      #: (Integer | Message | Time | Symbol) -> bool
      def seek(place)
        place = checked(place).offset if place.respond_to?(:offset)
        @coordinator.seeks.to(place, (@job if ours? && @job&.slice)).tap { |sought| leave_rest unless sought }
      end

      #: (Message, ?String?) -> bool
      def mark(message, metadata = nil)
        unless @exactly_once.inside?
          @exactly_once.outside!(checked(message))
          return @coordinator.mark(message, metadata)
        end
        raise InvalidMessageError.new(:metadata, metadata, "none in a transaction") if metadata

        @exactly_once.mark(checked(message))
      end

      # In a transaction it is the commit that is waited for.
      #: (Message, ?String?) -> bool
      def mark!(message, metadata = nil)
        return mark(message, metadata) if @exactly_once.inside?

        @exactly_once.outside!(checked(message))
        @coordinator.mark!(message, metadata)
      end

      # See Consumer#transaction.
      #: ((Producer | ProducerPool)?) { (Producer::Transaction) -> untyped } -> untyped
      def transaction(producer, &block) = @exactly_once.run(producer, &block)

      # See Consumer#dispatch_to_dead_letters.
      #: (Message, (Exception | String)?) -> bool
      def dispatch(message, reason)
        checked(message)
        !@coordinator.gone? && @forwarding.dispatch(message, reason, attempt)
      end

      # --- the coordinator's side, under its lock ------------------------------------------------------------------

      # since, called: when a worker got its job, and when its present call began (monotonic seconds).
      attr_reader :wake_at, :since, :called

      # Can it be given a job?
      #: () -> bool
      def free? = @job.nil? && @wake_at.nil?

      # Does its consumer take messages one by one?
      #: () -> bool
      def process? = @process

      # Is there a consumer that waits for its end?
      #: () -> bool
      def alive? = !@consumer.nil?

      # Ends its consumer here and now, if that is no work: no hook, `around`, background thread or producer of its own.
      #: (Symbol) -> bool
      def end_at_once(hook)
        return false unless @consumer.singleton_class.instance_method(hook).owner == Consumer
        return false if @around || @topic.transactional || !@scope.close_empty

        @consumer = nil
        true
      end

      # Counts an attempt to make the consumer.
      #: () -> Integer
      def next_build = @attempts_to_build += 1

      #: (Float) -> void
      def wait_until(time) = @wake_at = time

      # tick: one is due. Those that come while a job runs are one.
      #: (Float, ?tick: bool) -> void
      def wake(now, tick: false)
        @wake_at = nil if @wake_at && @wake_at <= now
        @tick = true if tick && @consumer
      end

      #: () -> bool
      def tick_due? = @tick

      # What is left undone if the process ends now. The block counts the messages of a job that are not finished.
      #: () { (Job) -> Integer } -> String?
      def loss
        return if @job.nil? || @job.kind == :assigned

        time = @since ? format("runs for %.1f s", Clock.now - @since) : "waits for a worker"
        rest = ", #{yield @job} of #{@job.messages.size} messages not finished" if @job.slice
        "#{topic_name}/#{partition}: #{@job.kind} #{time}#{rest}"
      end

      # For how many seconds the user's code has been at its present call, and at which: [:consume, 12.5]; nil: at none.
      #: () -> [Symbol, Float]?
      def busy
        job = @job
        called = @called
        [job.kind, Clock.now - called] if job && called
      end

      # The job is over.
      #: () -> void
      def clear
        @consumer = nil if @job.last?
        @tick = false if @job.kind == :tick
        @job = @since = @called = @thread = nil
      end

      # --- the worker's side ---------------------------------------------------------------------------------------

      # Runs a job of ours and settles it, however it ends: also when its thread is killed.
      #: (Job) -> void
      def perform(job)
        error = :killed
        @since = Clock.now
        return settle(job, nil) if job.later

        @called = @since
        @thread = Thread.current
        begin
          Thread.handle_interrupt(Threads::IMMEDIATE) { @scope.inside { call_consumer(job) } }
          error = nil
        rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises ends here
          error = e
        ensure
          @called = nil
          # The error is not asked: its == may raise, and nothing would end the job.
          killed = :killed.equal?(error)
          settle(job, killed ? WorkerKilled.new("#{job.kind} of #{topic_name}/#{partition}") : error)
        end
      end

      def inspect = "#<#{self.class} of #{topic_name}/#{partition}#{" runs #{@job.kind}" if @job}>"

      private

      # Consume itself asked for something that leaves what it did not mark for later.
      def leave_rest
        @job.paused = true if ours? && @job&.slice
      end

      def first_unfinished = (@coordinator.unfinished(@job).first&.offset if @job&.slice)

      # Is it the running job that asks?
      def ours? = @thread == Thread.current

      def checked(message)
        ours = message.respond_to?(:offset) && message.topic == topic_name && message.partition == partition
        return message if ours

        raise InvalidMessageError.new(:message, message, "a message of #{topic_name}/#{partition}")
      end

      # Tries in the topics before, where this is a retry topic (whose jobs have one message).
      def before = (@topic.stage && @job&.messages&.first&.origin&.attempts) || 0

      def call_consumer(job)
        @exactly_once.reset
        @consumer ||= build_consumer(job)
        return job.sort if job.kind == :sort
        return finish(job) if job.last?
        return call(job.kind) { @consumer.public_send(job.kind) } unless job.kind == :consume
        return job.paused = true if @coordinator.too_late?(job)

        job.begin(@flow.start(job.messages, one_by_one: process?), @bus)
        @coordinator.dropped(job) if job.start.dropped&.any?
        @flow.around(job) { consume(job) } unless job.wait || job.messages.empty?
      end

      def build_consumer(job)
        consumer = @topic.consumer_class.new.attach(self)
        @around = consumer.class.around?
        @process = consumer.class.process?
        wait_aside(job, back: true) { @exactly_once.open } if @topic.transactional
        consumer
      end

      def consume(job)
        job.backlog.check_key(job.slice) # raises what the user's `by` raised, as a failure of this job
        return process_each(job) if process?

        begun = true
        call(:consume) { @consumer.consume }
      ensure
        @flow.give_back(job.messages) unless begun || process?
      end

      def process_each(job)
        while !@exactly_once.undone && (message = @coordinator.one_by_one.step(job, job.current))
          break job.halted = true unless @flow.begin?

          job.current = message
          @called = Clock.now
          call(:process) { @consumer.process(message) }
        end
      end

      # One of the consumer's methods, inside of its `around`.
      def call(action, &method) = @around ? surround(action, &method) : yield

      # Whatever `around` makes of it: what failed has failed, what did not run is not done.
      def surround(action)
        error = AroundError.new(@consumer.class, action)
        @consumer.around(action) do
          yield.tap { error = nil }
        rescue Exception => e # rubocop:disable Lint/RescueException
          error = e
          raise
        end
        raise error if error
      end

      def finish(job)
        @scope.close { call(job.kind) { @consumer.public_send(job.kind) } }
      ensure
        wait_aside(job) { @exactly_once.close } if @topic.transactional
      end

      # For Kafka, which may take its time; a forced stop ends that at once.
      def wait_aside(job, back: false, &block)
        @coordinator.aside(job, back: back) { Thread.handle_interrupt(Object => :immediate, &block) }
      end
    end
  end
end
