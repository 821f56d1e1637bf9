# frozen_string_literal: true

require_relative "../background"
require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../runtime/threads"

module Pelton
  class Background
    # The threads of one owner, which is a consumer or an app: its background threads, and threads that its code starts.
    # The latter are in the owner's ThreadGroup, because a thread inherits the group of the thread that starts it.
    # Callable from every thread.
    class Scope
      # label: the owner's name ("orders/0"; nil: the app). facts: for events. timeout: seconds that background threads
      # have to end.
      #: (String?, Hash[Symbol, untyped], bus: Notifications, timeout: Numeric) -> void
      def initialize(label, facts, bus:, timeout:)
        @label = label
        @facts = facts
        @bus = bus
        @timeout = timeout
        @owned_since = Clock.now
        @group = ThreadGroup.new
        # The group of background threads and of threads that they start. They do not count as a job's own threads (see
        # ExactlyOnce::JobMarks#of?).
        @beside = ThreadGroup.new
        @lock = Mutex.new
        # Background threads. Ended ones are removed with the next start. Guarded by @lock.
        @backgrounds = []
        @closed = false
      end

      # Raises ConfigError if a thread of this name runs, and ClosedError after the end of the owner.
      #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
      def start(name, restart: false, &block)
        Background.check(name, block)
        @lock.synchronize do
          raise ClosedError, @label || "the app" if @closed

          @backgrounds = alive
          if @backgrounds.any? { |background| background.name == name }
            raise ConfigError.new("background", name, "a background thread of this name is already running")
          end

          @backgrounds << Background.new(name, started_at: block.source_location&.join(":"), label: @label,
                                               facts: @facts, bus: @bus, restart: restart) do |stop|
            inside(@beside) { block.call(stop) }
          end
          @backgrounds.last
        end
      end

      # Runs the owner's code, so that threads that it starts belong to the owner.
      #: (?ThreadGroup) { () -> untyped } -> untyped
      def inside(group = @group)
        thread = Thread.current
        before = thread.group
        return yield if before.enclosed?

        begin
          group.add(thread)
          yield
        ensure
          before.add(thread)
        end
      end

      # The owner ends: asks background threads to stop, runs the block, then waits for the threads, up to `seconds`.
      #: (?Numeric) ?{ () -> void } -> void
      def close(seconds = @timeout)
        list = @lock.synchronize do
          @closed = true
          @timeout = seconds
          stop_all(seconds)
        end
        yield if block_given?
      ensure
        Threads.join(list.map(&:thread), seconds)
      end

      # Ends the background threads, and waits up to `seconds`: the owner goes on with other code.
      #: (?Numeric) -> void
      def clear(seconds = @timeout) = Threads.join(@lock.synchronize { stop_all(seconds) }.map(&:thread), seconds)

      # The owner ends, if it has no live background thread. Returns false if it has one.
      #: () -> bool
      def close_empty = @lock.synchronize { alive.empty? && (@closed = true) }

      # Number of live threads: background threads, and threads that the owner's code started.
      #: () -> Integer
      def size
        ours = Threads.list # workers are in the group while they run the owner's code
        (@lock.synchronize { alive.map(&:thread) } | (started - ours)).size
      end

      # The threads that outlive the owner, which has ended: {thread => payload of thread.leaked, and owned_since}.
      # Returns each only once. Background threads have had their time to end, `seconds`.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads
        backgrounds = @lock.synchronize do
          alive.to_h { |background| [background.thread, background] }.tap { @backgrounds = [] }
        end
        [*backgrounds.keys, *started].uniq.to_h do |thread|
          ThreadGroup::Default.add(thread)
          background = backgrounds[thread]
          facts = background ? { name: background.name, seconds: @timeout } : { name: thread.name, seconds: nil }
          line = background ? background.started_at : Threads.started_at(thread)
          [thread, { **@facts, **facts, started_at: line, owned_since: @owned_since }]
        end
      end

      private

      def started = @group.list + @beside.list
      def alive = @backgrounds.select(&:alive?)
      def stop_all(seconds) = alive.each { |background| background.ask(seconds) }
    end
  end
end
