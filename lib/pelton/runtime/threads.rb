# frozen_string_literal: true

require_relative "clock"

module Pelton
  # The only place where a Ruby thread starts: each has a name, reports how it ended, and is registered while it lives.
  module Threads
    # Alive threads: {Thread => "pelton.worker#1"}. Guarded by LOCK.
    REGISTRY = {} # rubocop:disable Style/MutableConstant
    LOCK = Mutex.new
    # Seconds that a trap waits at most: the thread that it interrupted may hold what is waited for.
    TRAP_LIMIT = 10
    # A thread's variable: it is one of ours.
    OURS = :pelton
    # What Thread.handle_interrupt takes. Ruby does not copy a frozen Hash that compares by identity.
    IMMEDIATE = { Object => :immediate }.compare_by_identity.freeze
    NEVER = { Object => :never }.compare_by_identity.freeze
    ON_BLOCKING = { Object => :on_blocking }.compare_by_identity.freeze
    private_constant :REGISTRY, :LOCK, :TRAP_LIMIT, :OURS

    module_function

    # Starts a thread. An error that escapes the block goes to `report`, never to stderr behind the app's back.
    #   Threads.start("pelton.worker#1") { work }
    #: (String, ?priority: Integer, ?report: ^(Exception) -> void) { () -> void } -> Thread
    def start(name, priority: 0, report: nil)
      # Held until the thread is registered, so that a short thread cannot leave before it came.
      locked do
        thread = Thread.new do
          Thread.current.thread_variable_set(OURS, true)
          yield
        rescue Exception => e # rubocop:disable Lint/RescueException
          report ? report.call(e) : warn("#{name} ended: #{e.full_message(highlight: false)}")
        ensure
          locked { REGISTRY.delete(Thread.current) }
        end
        thread.name = name
        thread.priority = priority
        thread.report_on_exception = false
        # Whoever's code we were started from: we are not its thread (see Background::Scope).
        ThreadGroup::Default.add(thread) if thread.group && !thread.group.enclosed?
        REGISTRY[thread] = name
        thread
      end
    end

    # Runs user code that may be on a thread of ours, which defers interrupts: there it may be interrupted. Else a
    # Timeout of its own would come when it is over, in the midst of our code, and the threads that it starts, which
    # inherit what is deferred, could not be killed, not even by the end of the process. Changes nothing on others.
    #: () { () -> untyped } -> untyped
    def interruptible(&user)
      return yield unless Thread.current.thread_variable?(OURS)

      Thread.handle_interrupt(IMMEDIATE, &user)
    end

    # Starts a thread inside of a Ractor, which may not see what is registered here; it ends with its Ractor.
    #: () { () -> void } -> Thread
    def start_in_ractor(&block) = Thread.new(&block).tap { |thread| thread.report_on_exception = false }

    # Runs a block that takes locks. A trap may take none: there it runs on a thread of its own, and the trap waits for
    # what it returns or raises, `timeout` seconds at most and never more than 10; nil when it goes on after that.
    #: (String, ?timeout: Numeric?) { () -> untyped } -> untyped
    def outside_trap(name, timeout: nil)
      Clock.check(timeout)
      return yield unless trap?

      thread = Thread.new do
        Thread.current.report_on_exception = false # the trap is told, if it still waits
        locked { REGISTRY[Thread.current] = name }
        yield
      ensure
        locked { REGISTRY.delete(Thread.current) }
      end
      thread.name = name
      thread.value if thread.join([timeout, TRAP_LIMIT].compact.min)
    end

    # Is this a signal's handler?
    #: () -> bool
    def trap?
      Mutex.new.synchronize { false }
    rescue ThreadError
      true
    end

    # The threads that are alive in this process, oldest first (a forked child has none of its parent's).
    #: () -> Array[Thread]
    def list
      locked do
        REGISTRY.select! { |thread, _| thread.alive? } # one killed before its first step could not sign out
        REGISTRY.keys
      end
    end

    # The line where a thread is: "app.rb:12:in `pop'"; nil: it has ended.
    #: (Thread) -> String?
    def at(thread) = thread.backtrace&.find { |line| !line.start_with?("<internal:") }

    # The line of the block that a thread was started with: "app.rb:10".
    #: (Thread) -> String?
    def started_at(thread) = thread.inspect[/ ([^ ]+:\d+) \w+>\z/, 1]

    # Waits until all of these threads ended, or until the deadline. Returns those that are left. What one of them died
    # of is nothing to who waits: it may be a thread of the user's.
    #: (Array[Thread], ?Numeric?) -> Array[Thread]
    def join(threads, timeout = nil)
      deadline = Clock.deadline(timeout)
      threads.reject { |thread| thread.equal?(Thread.current) || ended?(thread, deadline) }
    end

    # Nobody who waits for the lock is interrupted: an unlocked Mutex wakes one of its waiters; if that one is killed
    # just then, Ruby (3.1 to 4.0) wakes no other one.
    def locked
      held = nil
      Thread.handle_interrupt(NEVER) { held = LOCK.lock }
      yield
    ensure
      held&.unlock
    end
    private_class_method :locked

    def ended?(thread, deadline)
      thread.join(*Clock.left(deadline))
    rescue Exception => e # rubocop:disable Lint/RescueException -- an error of that thread's, or an interrupt of this one
      died_of?(thread, e) || raise
    end

    # Of a thread that did, join raises the same object each time.
    def died_of?(thread, error)
      Thread.handle_interrupt(NEVER) { thread.join(0) }
      false
    rescue Exception => e # rubocop:disable Lint/RescueException -- as above
      e.equal?(error)
    end
    private_class_method :ended?, :died_of?
  end
end
