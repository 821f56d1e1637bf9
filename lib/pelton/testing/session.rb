# frozen_string_literal: true

require_relative "../schedule/service"
require_relative "../testing"
require_relative "app_copy"
require_relative "memory/memory"
require_relative "session/consumers"
require_relative "session/topics"
require_relative "virtual_clock"

module Pelton
  module Testing
    # What one test with the harness has: a copy of the default app, brokers in memory, consumers that the test's thread
    # runs, and a clock that stands still. While it is open, clients that the process opens are in memory, too. Several
    # threads may have a session each.
    class Session
      # A session that runs more jobs than this without coming to rest is stopped.
      JOBS = 5_000
      VARIABLE = :pelton_testing_session
      # Open sessions, guarded by LOCK.
      OPEN = [] # rubocop:disable Style/MutableConstant
      LOCK = Mutex.new
      # Do threads inherit the storage of the fiber that starts them?
      INHERITED = Fiber.respond_to?(:[])
      private_constant :JOBS, :VARIABLE, :OPEN, :LOCK, :INHERITED

      class << self
        # Opens a session for the calling thread.
        #: () -> Session
        def open
          current&.close if Thread.current.thread_variable_get(VARIABLE)
          session = new
          LOCK.synchronize { OPEN << session }
          Thread.current.thread_variable_set(VARIABLE, session)
          Fiber[VARIABLE] = session if INHERITED
          session
        end

        # The session of this thread, or of the thread that started it. Before Ruby 3.2 threads inherit nothing, so a
        # thread without a session gets the only one that is open: it may be a thread of the code under test.
        #: () -> Session?
        def current
          found = Thread.current.thread_variable_get(VARIABLE) || (Fiber[VARIABLE] if INHERITED)
          found&.closed? == false ? found : LOCK.synchronize { OPEN.first if OPEN.size == 1 }
        end

        # Forgets a session that is closed.
        #: (Session) -> void
        def forget(session)
          LOCK.synchronize { OPEN.delete(session) }
          mine = Thread.current.thread_variable_get(VARIABLE)
          Thread.current.thread_variable_set(VARIABLE, nil) if mine.equal?(session)
        end
      end

      # {"pelton.subscription#1" => Memory::Subscription}
      #: () -> Hash[String, Memory::Subscription]
      attr_reader :subscriptions
      # Errors of the next messages that clients produce: [[topic or nil, KafkaError], …]
      #: () -> Array[[String?, KafkaError]]
      attr_reader :failures
      # Outcomes of the next commits, which Kafka does not confirm: [:unknown, :committed, …]
      #: () -> Array[Symbol]
      attr_reader :unconfirmed_commits
      # Does it use a real Kafka? Then its clients are not in memory.
      #: () -> bool
      attr_accessor :real
      # Is the error of a consumer raised at once? See Helpers#raise_errors.
      #: () -> bool
      attr_accessor :raises
      # Messages that the test asserted: {["shipped", 0, 41] => true}, by topic, partition and offset.
      #: () -> Hash[[String, Integer, Integer], true]
      attr_reader :asserted

      def initialize
        @original = Pelton.declared_app
        @subscriptions = {}
        @failures = []
        @unconfirmed_commits = []
        @real = false
        @raises = Testing.raise_errors
        # {"localhost:9092" => Memory::Kafka}
        @brokers = {}
        # {app => Consumers}
        @consumers = {}.compare_by_identity
        # {app => Schedule::Service}
        @schedules = {}.compare_by_identity
        @lock = Mutex.new
        @clock = nil
        @app = @copy = nil
        @asserted = {}
        @running = @closed = false
      end

      # The test's copy of the default app, or the one that the test set.
      #: () -> App
      def app = @app || @lock.synchronize { @app ||= @copy = copy }

      # Sets the test's default app.
      #: (App) -> App
      attr_writer :app

      # The broker with this address; nil: of clients that name none.
      #: (String?) -> Memory::Kafka
      def broker(address) = @lock.synchronize { @brokers[address] ||= Memory::Kafka.new }

      #: () -> Array[Memory::Kafka]
      def brokers = @lock.synchronize { @brokers.values }

      # The consumers of an app.
      #: (?App) -> Consumers
      def consumers(app = self.app)
        begin_clock
        @consumers[app] ||= Consumers.new(app)
      end

      # What happened, in all apps.
      #: () -> Array[History]
      def histories = @consumers.each_value.map(&:history)

      #: (?App) -> Topics
      def topics(app = self.app) = (@topics ||= {}.compare_by_identity)[app] ||= Topics.new(self, app)

      # Does an app of the test declare or route this topic?
      #: (String) -> bool
      def topic?(name) = [app, *@consumers.keys].uniq.any? { |used_app| topics(used_app).exist?(name) }

      # Runs consumers until nothing is due. Does nothing if it is called by a consumer.
      #: () -> void
      def run
        return if @running

        begin
          @running = true
          begin_clock
          limit(JOBS) { [*@consumers.each_value.map(&:advance), *schedules.map { |schedule| schedule.turn(0) }].any? }
          @consumers.each_value(&:commit)
        ensure
          @running = false
        end
      end

      # Moves the clock by this many seconds, and runs what becomes due, each at its time.
      #: (Numeric) -> void
      def travel(seconds)
        begin_clock
        run
        target = @clock.now + seconds
        while (time = next_time) && time <= target + VirtualClock::TOLERANCE
          @clock.move_to(time)
          run
        end
        @clock.move_to(target)
        run
      end

      # The app begins again: its consumers stop.
      #: (App) -> void
      def reset(app)
        @consumers.delete(app)&.close
        @schedules.delete(app)&.close
        @topics&.delete(app)
      end

      # Stops all consumers: each gets `shutdown`.
      #: () -> void
      def stop
        @consumers.each_value(&:stop)
      end

      # Ends the session: stops the consumers and closes the test's app.
      #: () -> void
      def close
        return if @closed

        @closed = true
        @raises = false
        close_all(*@consumers.values, *@schedules.values)
      ensure
        VirtualClock.current = nil
        @copy&.close(timeout: 5)
        Session.forget(self)
      end

      #: () -> bool
      def closed? = @closed

      def inspect = "#<#{self.class} #{@closed ? "closed" : "open"}>"

      private

      # The default logger of a test: it has the methods of the usual one, for code that uses config.logger.
      module SilentLogger
        %i[debug info warn error].each { |name| define_singleton_method(name) { |_text = nil| true } }
      end
      private_constant :SilentLogger

      # Failures that a test causes are not in its output, unless a logger was set. (Minitest loads a Rails that has no
      # logger where that gem is installed.)
      def copy
        @original.dup.tap { |app| app.config.logger = SilentLogger if app.config.logger.equal?(DefaultLogger) }
      end

      # Also the others, if one raises.
      def close_all(first = nil, *others)
        first&.close
      ensure
        close_all(*others) if others.any?
      end

      def begin_clock = VirtualClock.current = (@clock ||= VirtualClock.new)

      def next_time
        due = schedules.filter_map(&:next_in).map { |seconds| @clock.now + seconds }
        [*@consumers.each_value.filter_map(&:next_time), *due].min
      end

      # Sends the messages of produce_later of each app that the test uses.
      def schedules
        [app, *@consumers.keys].uniq.each do |used_app|
          next if @schedules.key?(used_app) || used_app.config.schedule_topic.nil?

          options = { recurring: used_app.routes.recurring, bus: used_app.notifications, native: Memory }
          @schedules[used_app] = Schedule::Service.new(used_app.config.freeze, **options)
        end
        @schedules.values
      end

      def limit(count)
        count.times { return unless yield }
        errors = histories.flat_map(&:errors).last(3).map { |error| "#{error.class}: #{error.message}" }
        raise RestlessError.new(count, errors)
      end

      # Uses clients in memory while a session is open.
      module InMemory
        def for(given) = given || (Memory if Session.current&.real == false) || super
      end

      # Pelton.app is the session's app.
      module CurrentApp
        # The app that was set outside of tests.
        def declared_app = method(:app).super_method.call
        def app = Session.current&.app || super

        def app=(app)
          session = Session.current
          session ? session.app = app : super
        end
      end

      # What an app does differently while a session is open.
      module AppInMemory
        def start(...)
          return super unless Session.current&.real == false

          raise ShutdownError, "start: in this test, `produce` runs the consumers (pelton/testing); call " \
                               "`real_clients` first to run a server"
        end

        def reset!(...)
          Session.current&.reset(self)
          super
        end
      end

      # A test that starts an embedded cluster uses it.
      module RealCluster
        def initialize(...)
          Session.current&.real = true
          super
        end
      end
      private_constant :InMemory, :CurrentApp, :AppInMemory, :RealCluster
      Native.singleton_class.prepend(InMemory)
      Pelton.singleton_class.prepend(CurrentApp)
      App.prepend(AppInMemory)
      EmbeddedCluster.prepend(RealCluster)
    end
  end
end
