# frozen_string_literal: true

require_relative "../batch"
require_relative "../clock"
require_relative "../errors"
require_relative "backlog"
require_relative "forwarding"
require_relative "job"
require_relative "verdict"

module Pelton
  module Processing
    # One per partition that this process owns: what runs, what is done. Only it marks, retries and releases. Called by
    # the listener (start, receive, wake_up, end …), by workers (perform) and by the user's code (mark); its lock is
    # never held while user code or a subscriber runs.
    #
    # Life: the job :assigned (the consumer is born) → :consume, one at a time → :revoked or :shutdown → ended.
    class Coordinator
      # Errors after which the process cannot go on: nothing is retried, the server is asked to stop.
      CRITICAL = [SystemExit, SignalException, NoMemoryError].freeze

      attr_reader :topic_name, :partition, :facts

      # owner: the listener (retry_at, ended, critical, failed, producer). held: the partition's last coordinator still
      # runs a job, so this one waits for `unhold`.
      #: (Routing::Topic, Integer, group: String, flow: Flow, subscription: Subscription, jobs: JobsQueue,
      #:  bus: Notifications, owner: Listener, ?held: bool) -> void
      def initialize(topic, partition, group:, flow:, subscription:, jobs:, bus:, owner:, held: false)
        @topic = topic
        @topic_name = topic.name
        @partition = partition
        @flow = flow
        @subscription = subscription
        @jobs = jobs
        @bus = bus
        @owner = owner
        # What events say of us.
        @facts = { group: group, topic: topic.name, partition: partition }.freeze
        @forwarding = Forwarding.new(topic, @facts, bus) { producer }
        @none = Batch::Part.new(topic.name, partition, [].freeze)
        # Everything below is guarded by @lock. @consumer is also used by the running job, of which there is one.
        @lock = Mutex.new
        @backlog = Backlog.new(topic.batch)
        @held = held
        # nil before :assigned made it, and after its end.
        @consumer = nil
        # How often :assigned tried to make it.
        @births = 0
        # The job in the queue or on a worker, and since when a worker has it.
        @running = nil
        @running_since = nil
        # A retry waits for wake_up.
        @waiting = false
        # The largest offset that was marked: the next to be read after a restart.
        @marked = nil
        # Gave up after a failure: nothing runs any more.
        @stopped = false
        # :revoked or :shutdown, once the end has begun.
        @ending = nil
        # The partition is not ours any more.
        @gone = false
        @ended = false
      end

      # --- the listener's side -------------------------------------------------------------------------------------

      # The partition is ours: the consumer is born.
      #: () -> self
      def start = tap { @lock.synchronize { schedule } }

      # The last coordinator of this partition has ended.
      #: () -> void
      def unhold
        @lock.synchronize do
          @held = false
          schedule
        end
      end

      #: (Batch) -> void
      def receive(batch)
        @lock.synchronize do
          next batch.release if @ending

          @backlog.add(batch, batch)
          schedule
        end
      end

      # The time of a retry has come.
      #: () -> void
      def wake_up
        @lock.synchronize do
          @waiting = false
          schedule
        end
      end

      # No new work. The running job is finished, then the consumer's :revoked or :shutdown is called, then the owner is
      # told. The first reason counts.
      #: (Symbol) -> void
      def end(reason)
        @lock.synchronize do
          next if @ending

          @ending = reason
          @running = nil if @running && @jobs.delete(@running)
          @backlog.release(keep: @running ? 1 : 0)
          schedule
        end
      end

      # The partition is another's from now on: nothing can be marked.
      #: () -> void
      def abandon = @lock.synchronize { @gone = true }

      # What is left undone if the process ends now; nil: nothing. For the report of a forced stop.
      #: () -> String?
      def loss
        @lock.synchronize do
          next if @running.nil? || @running.kind == :assigned

          time = @running_since ? format("runs for %.1f s", Clock.now - @running_since) : "waits for a worker"
          all = @running.messages
          rest = ", #{@backlog.unfinished(all).size} of #{all.size} messages not finished" if all
          "#{@topic_name}/#{@partition}: #{@running.kind} #{time}#{rest}"
        end
      end

      # The hook (:revoked or :shutdown) that a born consumer still has to get, or that has not returned; nil: none.
      #: () -> Symbol?
      def due = @lock.synchronize { (@ending || :shutdown) if @consumer }

      # --- the workers' side ---------------------------------------------------------------------------------------

      # Runs a job of ours and settles it, however it ends: also when its thread is killed.
      #: (Job) -> void
      def perform(job)
        error = :killed
        @running_since = Clock.now
        begin
          Thread.handle_interrupt(Object => :immediate) { call_consumer(job) }
          error = nil
        rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises ends here
          error = e
        ensure
          settle(job, error == :killed ? WorkerKilled.new("#{job.kind} of #{@topic_name}/#{@partition}") : error)
        end
      end

      # --- the consumer's side -------------------------------------------------------------------------------------

      #: () -> Messages
      def messages = @running&.messages || @none

      #: () -> Integer
      def attempt = @backlog.attempt

      #: () -> bool
      def revoked? = @gone || @ending == :revoked

      #: () -> Producer
      def producer = @owner.producer

      # See Consumer#dispatch_to_dead_letters.
      #: (Message, (Exception | String)?) -> bool
      def dispatch(message, reason)
        !@gone && @forwarding.dispatch(message, reason, attempt)
      end

      #: (Message) -> bool
      def mark(message)
        unless message.topic == @topic_name && message.partition == @partition
          raise InvalidMessageError.new(:message, message, "a message of #{@topic_name}/#{@partition}")
        end

        @lock.synchronize { store(message.offset, message.leader_epoch) }
      end

      #: (Message) -> bool
      def mark!(message) = mark(message) && @subscription.commit

      def inspect = "#<#{self.class} #{@topic_name}/#{@partition} #{@ending || "owned"}>"

      private

      def call_consumer(job)
        @consumer ||= @topic.consumer_class.new.attach(self)
        return @consumer.public_send(job.kind) unless job.kind == :consume

        job.begin(@flow.start(job.messages), @bus)
        @flow.around(job) { @consumer.consume } unless job.wait || job.messages.empty?
      end

      # Decided first and carried out last, whatever comes between: a subscriber may end this thread.
      def settle(job, error)
        critical = error && CRITICAL.any? { |kind| error.is_a?(kind) }
        verdict, result = decide(job, error, critical) if job.kind == :consume
        report(job, error) if error
        verdict = @forwarding.forward(verdict, result) if verdict&.kind == :forward && !@ending
        tell(verdict, result) if result&.error
      ensure
        carry_out(verdict, job)
        @owner.critical(error) if critical
      end

      # The verdict, and the result it is about if a step decided; nil: a step failed.
      def decide(job, error, critical)
        return Verdict.stop if critical
        return Verdict.later(job.wait) if job.wait && !error

        left = error ? @lock.synchronize { @backlog.unfinished(job.messages) } : job.messages
        result = Result.new(error, left, @backlog.attempt)
        [@flow.settle(result), result]
      rescue StandardError => e
        @bus.publish("error.occurred", **@facts, error: e, source: "flow")
      end

      # Without a verdict (a step failed, or the consumer could not be made) it is as if consume had failed.
      def carry_out(verdict, job)
        @lock.synchronize do
          verdict ||= Verdict.again(@topic.back_off.delay(job.attempt)) if job.kind == :consume || !@consumer
          @running = @running_since = nil
          apply(verdict, job) if verdict
          @backlog.release if @ending
          %i[revoked shutdown].include?(job.kind) ? finish : schedule
        end
      end

      # The rest of a failed job is not run again by us once the end has begun: who gets the partition next does it.
      def apply(verdict, job)
        case verdict.kind
        when :done then pass(job.done.last_offset, job.done.leader_epoch, mark: verdict.mark)
        when :stop then @stopped = true
        when :again, :forward then again(verdict, job) unless @ending
        when :later then later(verdict) unless @ending
        when :skip then skip(job) if verdict.to || !@ending
        end
      end

      def pass(offset, leader_epoch, mark:)
        done = @backlog.pass(offset)
        store(done, leader_epoch) if mark
      end

      def again(verdict, job)
        @backlog.alone_until(job.messages.last_offset) if verdict.alone
        wait_for(verdict.delay) if verdict.delay.positive?
      end

      def later(verdict)
        @backlog.unbegun
        wait_for(verdict.delay)
      end

      def wait_for(seconds)
        @waiting = true
        @owner.retry_at(self, Clock.now + seconds)
      end

      # Where the user marks, it is for the user's next mark to pass the skipped message.
      def skip(job)
        message = @backlog.unfinished(job.messages).first
        pass(message.offset, message.leader_epoch, mark: !@topic.manual_offsets) if message # else marked meanwhile
      end

      # Starts the next job, if there is one and nothing forbids it. Under @lock, as all down to `finish`.
      def schedule
        return if @running || @ended

        if @ending then @consumer ? push(@ending) : finish
        elsif @held || @waiting || @stopped then nil
        elsif !@consumer then push(:assigned, nil, @births += 1)
        elsif (messages = @backlog.next)
          push(:consume, messages)
        end
      end

      def push(kind, messages = nil, attempt = @backlog.attempt)
        @running = Job.new(self, kind, messages, attempt, @facts)
        @jobs.push(@running)
      end

      # Marks that everything up to this offset is done; never back. false: not ours.
      def store(offset, leader_epoch)
        return false if @gone
        return true if @marked && offset < @marked
        return false unless @subscription.mark(@topic_name, @partition, offset + 1, leader_epoch)

        @marked = offset + 1
        @backlog.advance(@marked, running: !@running.nil?)
        true
      rescue KafkaError, ClosedError => e
        @owner.failed(e, @facts)
        false
      end

      # Nothing can be marked any more: the next coordinator of this partition may be at work already.
      def finish
        @ended = @gone = true
        @consumer = nil
        @backlog.release
        @owner.ended(self)
      end

      def report(job, error)
        more = job.kind == :consume ? { attempt: @backlog.attempt, offset: job.messages.first_offset } : {}
        @bus.publish("error.occurred", **@facts, **more, error: error, source: "consumer.#{job.kind}")
      end

      # What the end left undone is not told.
      def tell(verdict, result) = (verdict.tell(@bus, result, @facts) if verdict.to || !@ending)
    end
  end
end
