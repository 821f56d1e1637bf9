# frozen_string_literal: true

require "forwardable"
require_relative "../../background/scope"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../message/origin"
require_relative "../../runtime/threads"
require_relative "../exactly_once/own_transactions"
require_relative "../failures/forwarding"
require_relative "around"
require_relative "consumer_context"
require_relative "consumer_instance"
require_relative "instrument"
require_relative "settlement"

module Pelton
  module Consuming
    # Runs the jobs of a partition one at a time, with one consumer object (ConsumerInstance), which sees a
    # ConsumerContext. A partition has one executor, or as many as its topic's `concurrency` says. Settlement decides
    # how a job ends.
    class Executor
      extend Forwardable

      def_delegators :@instance, :consumer, :next_attempt

      # The job in the queue or on a worker; written under the coordinator's lock.
      attr_accessor :job
      # The threads that the consumer's code starts.
      attr_reader :scope
      # When a worker got the job, and when the present call of the user's code began (monotonic seconds); nil: no job,
      # no call. For `process` the present call is that of one message.
      attr_reader :since, :called
      # When a failed build of the consumer is tried again (monotonic seconds); nil: none failed.
      attr_reader :wake_at
      # The consumer's transactions.
      #: () -> OwnTransactions
      attr_reader :transactions
      # [thread, threads that the consumer had when the job began] while the user's code may run; nil: no job runs.
      # Replaced as a whole.
      #: () -> [Thread, Array[Thread]]?
      attr_reader :running

      #: (Coordinator, Routing::Topic, Flow, Notifications, **untyped) -> void
      def initialize(coordinator, topic, flow, bus, background_timeout: 5, around_job: nil, tracer: nil)
        @coordinator = coordinator
        @topic = topic
        @around_job = around_job
        @tracer = tracer
        @flow = flow
        @bus = bus
        name = "#{topic.name}/#{coordinator.partition}"
        @scope = Background::Scope.new(name, coordinator.facts, bus: bus, timeout: background_timeout)
        @instance = ConsumerInstance.new(topic, ConsumerContext.new(self, coordinator, topic, bus))
        @settlement = Settlement.new(self, coordinator, flow, bus, topic.back_off)
        @instrument = Instrument.new(bus)
        @job = @since = @called = @running = @wake_at = nil
        # Is a tick due when the job ends?
        @tick = false
        @transactions = OwnTransactions.new(self, coordinator, topic)
      end

      # --- called by the worker ------------------------------------------------------------------------------------

      # Runs a job and settles it, however it ends: also when its thread is killed. observed: publish job.finished?
      #: (Job, ?bool) -> void
      def perform(job, observed = @bus.call_events)
        return @instrument.job(job) { perform(job, false) } if observed

        error = :killed
        @since = Clock.now
        @instrument.begin(job, @since) if job.queued_at
        return @settlement.settle(job, nil) if job.later

        @called = @since
        begin
          Thread.handle_interrupt(Threads::IMMEDIATE) { @scope.inside { job.last? ? finish(job) : enter(job) } }
          error = nil
        rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises ends here
          error = e
        ensure
          @called = @running = nil
          # Not `error == :killed`: the error's == may raise, and nothing would end the job.
          killed = :killed.equal?(error)
          @settlement.settle(job, killed ? WorkerKilled.new("#{called_method(job)} of #{name}") : error)
        end
      end

      # --- called by the coordinator, under its lock ---------------------------------------------------------------

      # Can it be given a job?
      #: () -> bool
      def free? = @job.nil? && @wake_at.nil?

      # The method that a job calls: a :consume calls `process` if the consumer has that.
      #: (Job) -> Symbol
      def called_method(job) = job.slice && process? ? :process : job.kind

      # Does its consumer take messages one by one?
      #: () -> bool
      def process? = @instance.process

      # Is there a consumer whose end is not over?
      #: () -> bool
      def alive? = !@instance.consumer.nil?

      # Ends its consumer without a job, if there is nothing to do: no hook, `around`, background thread or producer of
      # its own.
      #: (Symbol) -> bool
      def end_at_once(hook)
        return false if @topic.transactional || !@instance.without?(hook) || !@scope.close_empty

        @instance.clear
        true
      end

      #: (Float) -> void
      def wait_until(time) = @wake_at = time

      # tick: a tick is due. Ticks that come due while a job runs become one.
      #: (Float, ?tick: bool) -> void
      def wake(now, tick: false)
        @wake_at = nil if @wake_at && @wake_at <= now
        @tick = true if tick && alive?
      end

      #: () -> bool
      def tick_due? = @tick

      # The job is over.
      #: () -> void
      def clear
        @instance.clear if @job.last?
        @tick = false if @job.kind == :tick
        @job = @since = nil
      end

      # --- called by the consumer's context, by the settlement and by health checks --------------------------------

      # The present call of the user's code and its seconds: [:consume, 12.5]; nil: it is at none.
      #: () -> [Symbol, Float]?
      def busy
        job = @job
        called = @called
        [job.kind, Clock.now - called] if job && called
      end

      # Is this the thread that runs the user's code?
      #: () -> bool
      def runs_here?
        running = @running
        !running.nil? && running.first == Thread.current
      end

      # The number of this attempt, over all retry topics; 0: no job with messages runs.
      #: () -> Integer
      def attempt = @coordinator.attempt(@job) + earlier_attempts(@job)

      # The same of a job that has ended, for its events: the attempt that it began with.
      #: (Job) -> Integer
      def attempt_of(job) = job.attempt + earlier_attempts(job)

      # Sends copies of its failed messages. It has no state, so each use may have a new one. From any thread.
      #: () -> Forwarding
      def forwarding = Forwarding.new(@topic, @coordinator.facts, @bus, @transactions.use)

      def inspect = "#<#{self.class} of #{name}#{" runs #{@job.kind}" if @job}>"

      private

      # Every layer around the user's code, in order, the outermost first. Before them a worker took the job from the
      # jobs queue (Worker), and `perform` settles it whatever happens here.
      #   1. The consumer's scope: threads that its code starts belong to it (`perform`).
      #   2. The app's `reloader`, then its `around_job`. Only if they are set.
      #   3. Transactions: the job's own begin. Only if the topic is `transactional`, or the consumer used one before.
      #   4. The consumer object: built by its first job.
      #   5. The flow: where, filters, expire_after, delay and throttle select the messages. Only if the topic has one.
      #   6. The events of calls, as consumer.consumed, and their counts. Only if one has a subscriber, or calls are
      #      counted.
      #   7. The span of `consume` or `process`. Only if config.tracer is set.
      #   8. The consumer's own `around`. Only if its class defines it.
      #   9. The user's code: `consume`, `process` for each message, or a hook.
      def run(job)
        thread = Thread.current
        @running = [thread, thread.group.list]
        @transactions.created&.reset(*@running)
        @instance.build { @transactions.open(job) } unless @instance.consumer
        renew if reloaded?(job)
        case job.kind
        when :sort then job.sort
        when :consume
          return unless select_messages(job)

          measured(job) do
            check_key(job)
            next process_each(job) if @instance.process

            job.given = job.messages.size
            call(:consume) { @instance.consumer.consume }
          end
        else measured(job) { call(job.kind) { @instance.consumer.public_send(job.kind) } }
        end
      end

      # Layer 2.
      def enter(job)
        return run(job) unless @around_job

        @around_job.call({ **job.facts, kind: job.kind }) { run(job) }
      end

      # Did layer 2 reload code? The last job is for the old object, which has its state.
      def reloaded?(job) = @around_job && !job.last? && @instance.outdated?

      def renew
        @scope.clear
        @instance.renew { call(:assigned) { @instance.consumer.assigned } }
      end

      # Layer 5. false: there is nothing to call the consumer for now.
      def select_messages(job)
        return !(job.paused = true) if @coordinator.too_late?(job)

        job.begin(@flow.selects ? @flow.start(job.messages, one_by_one: @instance.process) : nil, @bus)
        @coordinator.dropped(job) if job.start&.dropped&.any?
        !job.wait && job.messages.size.positive?
      end

      # Layer 6.
      def measured(job, &call) = @bus.calls ? @instrument.around(job, &call) : yield

      # Asks the user's `by` again for a message for which it failed: what it raises is the failure of this job.
      def check_key(job)
        job.backlog.check_key(job.slice)
        checked = true
      ensure
        @flow.give_back(job.messages) unless checked || @instance.process
      end

      def process_each(job)
        given = 0
        due = (@called + Instrument::INTERVAL unless @bus.counters.empty?)
        while !@transactions.created&.undone && (message = @coordinator.one_by_one.step(job, job.current))
          break job.halted = true unless @flow.begin?

          job.current = message
          given += 1
          @called = now = Clock.now
          if due && now >= due
            due = now + Instrument::INTERVAL
            @instrument.progress(job, given)
          end
          call(:process) { @instance.consumer.process(message) }
        end
      ensure
        job.given = given
      end

      # Layers 7 and 8.
      def call(action, tracer = @tracer, &method)
        if tracer && %i[consume process].include?(action)
          return @job.traced(tracer, attempt) { call(action, nil, &method) }
        end

        return yield unless @instance.around

        consumer = @instance.consumer
        Around.call("#{consumer.class}#around", action, consumer, :around, action, &method)
      end

      # The consumer's threads and its own producer end, whatever the layers of its last job do.
      def finish(job)
        @scope.close { enter(job) }
      ensure
        @transactions.close(job)
      end

      # In a retry topic: the attempts in the topics before. (A job of a retry topic has one message.)
      def earlier_attempts(job)
        first = @topic.stage && job&.messages&.first
        (first && Origin.of(first)&.attempts) || 0
      end

      def name = "#{@coordinator.topic_name}/#{@coordinator.partition}"
    end
  end
end
