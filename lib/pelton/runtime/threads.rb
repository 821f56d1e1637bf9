# frozen_string_literal: true

require_relative "clock"

module Pelton
  # The only place where a Ruby thread starts: each has a name, reports how it ended, and is registered while it lives.
  module Threads
    # Alive threads: {Thread => "pelton.worker#1"}. Guarded by LOCK.
    REGISTRY = {} # rubocop:disable Style/MutableConstant
    LOCK = Mutex.new
    # The longest wait of a signal handler, in seconds. The thread that it interrupted may hold the lock it waits for.
    TRAP_LIMIT = 10
    # A thread variable that marks Pelton's threads.
    OURS = :pelton
    # Arguments for Thread.handle_interrupt. Ruby does not copy a frozen Hash that compares by identity.
    IMMEDIATE = { Object => :immediate }.compare_by_identity.freeze
    NEVER = { Object => :never }.compare_by_identity.freeze
    ON_BLOCKING = { Object => :on_blocking }.compare_by_identity.freeze
    private_constant :REGISTRY, :LOCK, :TRAP_LIMIT, :OURS

    module_function

    # Starts a thread. An error that escapes the block goes to `report`, or to `warn` without one.
    #   Threads.start("pelton.worker#1") { work }
    #: (String, ?priority: Integer, ?report: ^(Exception) -> void) { () -> void } -> Thread
    def start(name, priority: 0, report: nil)
      # The lock is held until the thread is registered and has its name. The thread waits for that, because
      # Background.here? reads the name.
      locked do
        thread = Thread.new do
          Thread.current.thread_variable_set(OURS, true)
          locked { nil }
          yield
        rescue Exception => e # rubocop:disable Lint/RescueException
          report ? report.call(e) : $stderr.write("#{name} ended: #{e.full_message(highlight: false)}\n")
        ensure
          locked { REGISTRY.delete(Thread.current) }
        end
        thread.name = name
        thread.priority = priority
        thread.report_on_exception = false
        # A thread inherits the group of the code that starts it, but it is not that code's (see Background::Scope).
        ThreadGroup::Default.add(thread) if thread.group && !thread.group.enclosed?
        REGISTRY[thread] = name
        thread
      end
    end

    # Runs user code so that it can be interrupted, also on Pelton's threads, which defer interrupts. Otherwise a
    # Timeout in user code would take effect later, in the middle of Pelton's code. And threads that user code starts
    # would inherit the deferral: not even the end of the process could kill them. Changes nothing on other threads.
    #: () { () -> untyped } -> untyped
    def interruptible(&user)
      return yield unless Thread.current.thread_variable?(OURS)

      Thread.handle_interrupt(IMMEDIATE, &user)
    end

    # Starts a thread inside a Ractor, which cannot use REGISTRY. It ends with its Ractor.
    #: () { () -> void } -> Thread
    def start_in_ractor(&block) = Thread.new(&block).tap { |thread| thread.report_on_exception = false }

    # Runs a block that takes locks. A signal handler may not take locks, so there the block runs on its own thread, and
    # the handler waits for its result or error. It waits up to `timeout` seconds, and never more than 10 s. After that
    # it returns nil while the block continues.
    #: (String, ?timeout: Numeric?) { () -> untyped } -> untyped
    def outside_trap(name, timeout: nil)
      Clock.check(timeout)
      return yield unless trap?

      thread = start_in_trap(name) do
        Thread.current.report_on_exception = false # the handler gets the error, if it still waits
        yield
      end
      thread.value if thread.join([timeout, TRAP_LIMIT].compact.min)
    end

    # For a signal handler: runs a block that takes locks later, on a thread of its own. Does not wait for it, because
    # the thread that the handler interrupted may hold such a lock. Blocks run in order. The end of the process waits
    # for them, up to 10 s.
    #: (String) { () -> void } -> void
    def after_trap(name)
      before = @after_trap
      at_exit { join([@after_trap], TRAP_LIMIT) } unless before
      # No other handler runs now: Ruby runs them one by one, on the main thread.
      @after_trap = start_in_trap(name) do
        join([*before])
        before = nil # or each thread would keep all before it
        yield
      end
    end

    # Is this code running in a signal handler? Those run on the main thread.
    #: () -> bool
    def trap?
      return false unless Thread.current.equal?(Thread.main)

      Mutex.new.synchronize { false }
    rescue ThreadError
      true
    end

    # The live threads of this process, oldest first. A forked child has none of its parent's threads.
    #: () -> Array[Thread]
    def list
      locked do
        REGISTRY.select! { |thread, _| thread.alive? } # one killed before its first step did not remove itself
        REGISTRY.keys
      end
    end

    # The line that a thread is at: "app.rb:12:in `pop'"; nil if it has ended.
    #: (Thread) -> String?
    def at(thread) = thread.backtrace&.find { |line| !line.start_with?("<internal:") }

    # The line of the block that a thread was started with: "app.rb:10".
    #: (Thread) -> String?
    def started_at(thread) = thread.inspect[/ ([^ ]+:\d+) \w+>\z/, 1]

    # Waits until all of these threads have ended, up to `timeout` seconds. Returns those that still run. An error that
    # ended one of them is ignored, because it may be the user's thread.
    #: (Array[Thread], ?Numeric?) -> Array[Thread]
    def join(threads, timeout = nil)
      deadline = Clock.deadline(timeout)
      threads.reject { |thread| thread.equal?(Thread.current) || ended?(thread, deadline) }
    end

    # A signal handler cannot take the lock, so the thread registers itself.
    def start_in_trap(name)
      thread = Thread.new do
        locked { REGISTRY[Thread.current] = name }
        yield
      ensure
        locked { REGISTRY.delete(Thread.current) }
      end
      thread.name = name
      thread
    end
    private_class_method :start_in_trap

    # A thread that waits for the lock cannot be interrupted. An unlocked Mutex wakes one waiting thread. If that thread
    # is killed at this moment, Ruby (3.1 to 4.0) wakes no other one.
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
    rescue Exception => e # rubocop:disable Lint/RescueException -- that thread's error, or an interrupt of this one
      died_of?(thread, e) || raise
    end

    # Did the thread end with this error? Then each `join` raises the same object.
    def died_of?(thread, error)
      Thread.handle_interrupt(NEVER) { thread.join(0) }
      false
    rescue Exception => e # rubocop:disable Lint/RescueException -- as above
      e.equal?(error)
    end
    private_class_method :ended?, :died_of?
  end
end
