# frozen_string_literal: true

require_relative "../background"
require_relative "../errors"
require_relative "../runtime/threads"

module Pelton
  class Background
    # The threads of one owner, a consumer or an app: its background threads, and those that its code starts by itself,
    # which are in its ThreadGroup, for a thread inherits the group of who starts it. From any thread.
    class Scope
      # label: the owner's name ("orders/0"; nil: the app). facts: for events. timeout: how many seconds its background
      # threads may take to end.
      #: (String?, Hash[Symbol, untyped], bus: Notifications, timeout: Numeric) -> void
      def initialize(label, facts, bus:, timeout:)
        @label = label
        @facts = facts
        @bus = bus
        @timeout = timeout
        @group = ThreadGroup.new
        # Of background threads and of those that they start: a job is not told of them as its own (see Attempt#of?).
        @beside = ThreadGroup.new
        @lock = Mutex.new
        # Background threads; under @lock. Those that ended go with the next start.
        @backgrounds = []
        @closed = false
      end

      # Raises ConfigError if one of this name runs, ClosedError after the end of the owner.
      #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
      def start(name, restart: false, &block)
        Background.check(name, block)
        @lock.synchronize do
          raise ClosedError, @label || "the app" if @closed

          @backgrounds = alive
          if @backgrounds.any? { |one| one.name == name }
            raise ConfigError.new("background", name, "a background thread of this name is already running")
          end

          @backgrounds << Background.new(name, started_at: block.source_location&.join(":"), label: @label,
                                               facts: @facts, bus: @bus, restart: restart) do |stop|
            inside(@beside) { block.call(stop) }
          end
          @backgrounds.last
        end
      end

      # Runs code of the owner's: the threads that it starts are known to be the owner's.
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

      # The owner's end: background threads are asked to stop, then the block runs, then they are awaited, so many
      # seconds at most.
      #: (?Numeric) ?{ () -> void } -> void
      def close(seconds = @timeout)
        list = @lock.synchronize do
          @closed = true
          alive.each { |one| one.stop(0) }
        end
        yield if block_given?
      ensure
        Threads.join(list.map(&:thread), seconds)
      end

      # The owner's end, if no background thread has to be awaited; false: one has.
      #: () -> bool
      def close_empty = @lock.synchronize { alive.empty? && (@closed = true) }

      # How many threads it has that live: background threads, and those that its code started.
      #: () -> Integer
      def size
        ours = Threads.list # workers are in the group while they run the owner's code
        (@lock.synchronize { alive.map(&:thread) } | (started - ours)).size
      end

      # What outlives the owner, which has ended: {thread => facts for thread.leaked}, once. Background threads have
      # had their time, `seconds`.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads
        backgrounds = @lock.synchronize { alive.to_h { |one| [one.thread, one] }.tap { @backgrounds = [] } }
        [*backgrounds.keys, *started].uniq.to_h do |thread|
          ThreadGroup::Default.add(thread)
          one = backgrounds[thread]
          facts = one ? { name: one.name, seconds: @timeout } : { name: thread.name, seconds: nil }
          [thread, { **@facts, **facts, started_at: one ? one.started_at : Threads.started_at(thread) }]
        end
      end

      private

      def started = @group.list + @beside.list
      def alive = @backgrounds.select(&:alive?)
    end
  end
end
