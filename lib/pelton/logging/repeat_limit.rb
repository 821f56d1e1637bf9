# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "default_logger"
require_relative "../errors"
require_relative "printable"
require_relative "../runtime/threads"

module Pelton
  # Decides which failures a log writes, and which it only counts. It writes the first few lines of a kind and counts
  # the others. When the kind's WINDOW ends, it writes the count. So a broker that is down causes one line in 30 s.
  # FailureLog and Reporters::Log have one each. Thread-safe.
  class RepeatLimit
    # Seconds in which a limited number of lines of one kind is written.
    WINDOW = 30
    # Number of lines of a kind in that time. Kinds are: connections to one broker; undelivered messages to one topic;
    # everything else with the same source, group and topic. "All brokers are down" is written at the end of the window,
    # and only if no connection error was written.
    LINES = { connection: 1, delivery: 1, other: 10, all_down: 0 }.freeze
    # The largest number of kinds that are kept. The oldest ones are removed first.
    KINDS = 1000

    # Facilities of librdkafka's logs about a broker. Up to syslog's level 3, librdkafka also reports them as errors.
    REPORTED_AS_ERROR = %w[FAIL ERROR SSLCERTVRFY].freeze
    ERROR_LEVEL = 3
    # Requests that a broker did not answer: a line for each at level 6, then one that counts them at level 4.
    UNANSWERED = "REQTMOUT"
    WARNING_LEVEL = 4
    # "[thrd:GroupCoordinator]: ", in front of a log's message.
    THREAD = /\A\[thrd:[^\]]*\]: /
    CONNECTION = %i[_TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _SSL _AUTHENTICATION].freeze
    # "ssl://kafka-1:9093/bootstrap: Connect to … failed" → "kafka-1:9093", and so
    # "GroupCoordinator: kafka-1:9093: Connect to … failed"
    BROKER = %r{\A(?:\w+://|\w+: )?([^\s/]+:\d+)[/:]}
    # The coordinator of transactions starts, or still ends a killed process's transaction. librdkafka repeats the
    # request. If it gives up, the transaction raises this reason.
    COORDINATOR_BUSY = /Failed to acquire .*(load in progress|concurrent operation).*: retrying\z/
    ALL_DOWN = [:all_down].freeze
    NEVER = { Object => :never }.freeze
    private_constant :ALL_DOWN, :ERROR_LEVEL, :CONNECTION, :BROKER, :NEVER, :COORDINATOR_BUSY, :UNANSWERED,
                     :WARNING_LEVEL, :THREAD

    # Events that always have the same severity. There may be thousands of them.
    ALIKE = %w[error.occurred message.delivery_failed message.skipped message.dead_lettered].freeze
    private_constant :ALIKE

    # State of one kind. ends: when its window ends. written, counted: numbers of lines in the window. severity, text:
    # one of the lines that were counted.
    Kind = Struct.new(:ends, :written, :counted, :severity, :text)
    # Limits that counted something: {limit => process id}. Guarded by LOCK.
    COUNTING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :Kind, :COUNTING, :LOCK

    class << self
      # Seconds until a log must write a count; nil if none must. For a thread that waits anyway.
      #: () -> Numeric?
      def due = COUNTING.empty? ? nil : counting.filter_map(&:due).min

      # Writes the counts of windows that have ended. last: writes all counts. If a log raises, the other logs still
      # write, and so does the calling thread.
      #: (?last: bool) -> void
      def report(last: false)
        return if COUNTING.empty?

        counting.each do |limit|
          limit.report(last: last)
        rescue StandardError => e
          DefaultLogger.error("a log raised #{e.class}: #{Printable.line(Printable.message(e))}")
        end
      end

      # The limit has counted something, or has reported all of it.
      #: (RepeatLimit, bool) -> void
      def note(limit, counts) = locked { counts ? COUNTING[limit] = Process.pid : COUNTING.delete(limit) }

      private

      # A forked child does not report its parent's counts.
      def counting = locked { COUNTING.filter_map { |limit, pid| limit if pid == Process.pid } }

      # A signal handler cannot take a lock.
      def locked(&section) = Threads.trap? ? yield : Thread.handle_interrupt(NEVER) { LOCK.synchronize(&section) }
    end

    # The block writes a line with a count, on the thread that calls `report`. window: for tests.
    #: (?window: Numeric) { (Integer, String) -> void } -> void
    def initialize(window: WINDOW, &write)
      @window = window
      @write = write
      # {[:connection, "kafka-1:9092", :_TRANSPORT] => Kind}. Guarded by @lock. No user code runs under @lock.
      @kinds = {}
      @pid = Process.pid
      @lock = Mutex.new
    end

    # Counts the event if its line is not to be written, and returns true. Then its text is not needed.
    #: (Events::Event) -> bool
    def counts?(event)
      return counted_below?(event) unless ALIKE.include?(event.name)

      limit, key = kind(event)
      limit.nil? || locked { again?(key) }
    end

    # Is this event's line to be written now? If not, it is counted, or another event has the same information.
    #: (Events::Event, Integer, String) -> bool
    def pass?(event, severity, text)
      limit, key = kind(event)
      return false unless limit

      first?(limit, key, severity, text) { |old| summarize(old) }
    end

    #: () -> Numeric?
    def due
      ends = locked { @kinds.each_value.filter_map { |kind| kind.ends if kind.counted.positive? }.min }
      ends && Clock.left(ends)
    end

    #: (?last: bool) -> void
    def report(last: false)
      now = Clock.now
      over = locked do
        found = @kinds.select { |_, kind| last || kind.ends <= now }
        found.each_key { |key| @kinds.delete(key) }
        RepeatLimit.note(self, false) if @kinds.none? { |_, kind| kind.counted.positive? }
        found.values
      end
      over.each { |kind| summarize(kind) if kind.counted.positive? }
    end

    # Number of kinds that are kept now.
    #: () -> Integer
    def size = @kinds.size

    def inspect = "#<#{self.class} #{size} kinds>"

    private

    # [key of LINES, key of the kind], or nil if another event or error has the same information.
    def kind(event)
      case event.name
      when "error.occurred" then kind_of_error(event)
      when "message.delivery_failed" then [:delivery, [:delivery, event[:topic], name(event[:error])]]
      when "kafka.log"
        kind_of_log(event[:facility], event[:message]) unless known_elsewhere?(event)
      else
        [:other, [event.name, *event.payload.values_at(:client, :group, :topic)]]
      end
    end

    def kind_of_log(facility, message)
      return [:other, [:log, facility]] unless facility == UNANSWERED || REPORTED_AS_ERROR.include?(facility)

      [:connection, [:log, facility, message.sub(THREAD, "")[BROKER, 1]]]
    end

    def counted_below?(event)
      event.name == "kafka.log" && event[:facility] == UNANSWERED && event[:level] > WARNING_LEVEL
    end

    def known_elsewhere?(event)
      case event[:facility]
      when *REPORTED_AS_ERROR then event[:level] <= ERROR_LEVEL
      when "GETPID" then COORDINATOR_BUSY.match?(event[:message])
      end
    end

    def kind_of_error(event)
      error = event[:error]
      if error.is_a?(KafkaError) && event[:source] == "kafka" && CONNECTION.include?(error.name)
        if error.name == :_ALL_BROKERS_DOWN
          return connection_reported? ? nil : [:all_down, ALL_DOWN]
        end

        at = error.reason[BROKER, 1] || event.payload.values_at(:client, :group)
        return [:connection, [:connection, at, error.name]]
      end
      [:other, [:error, event[:source], error.class, *event.payload.values_at(:group, :topic)]]
    end

    def name(error) = error.is_a?(KafkaError) ? error.name : error.class

    def connection_reported?
      now = Clock.now
      locked { @kinds.any? { |(what, *), kind| what == :connection && kind.ends > now } }
    end

    # Returns true if this line is to be written. Yields the kind's previous window if its count was not written yet.
    def first?(limit, key, severity, text)
      old = nil
      first = locked do
        reset_after_fork unless @pid == Process.pid
        now = Clock.now
        kind = @kinds[key]
        if kind.nil? || kind.ends <= now
          old = kind
          kind = begun(key, now)
        end
        kind.written < LINES.fetch(limit) ? kind.written += 1 : count(kind, severity, text)
      end
      yield old if old&.counted&.positive?
      first
    end

    # Was a line of this kind counted in this window? Under @lock, like the next methods.
    def again?(key)
      kind = @kinds[key] if @pid == Process.pid
      return false if kind.nil? || kind.counted.zero? || kind.ends <= Clock.now

      kind.counted += 1
      true
    end

    def count(kind, severity, text)
      kind.counted += 1
      kind.severity = severity
      kind.text = text
      RepeatLimit.note(self, true)
      nil
    end

    def begun(key, now)
      @kinds.delete(key)
      @kinds.delete(ALL_DOWN) if key.first == :connection
      @kinds.shift if @kinds.size >= KINDS
      @kinds[key] = Kind.new(now + @window, 0, 0)
    end

    # In a forked child. Under @lock.
    def reset_after_fork
      @kinds.clear
      @pid = Process.pid
    end

    def summarize(kind)
      others = kind.counted - 1
      more = " (and #{others} more like it within #{@window} s)" if others.positive?
      @write.call(kind.severity, "#{kind.text}#{more}")
    end

    # A signal handler cannot take a lock, so it may write too many lines.
    def locked(&section)
      return yield if Threads.trap?

      Thread.handle_interrupt(NEVER) { @lock.synchronize(&section) }
    end
  end
end
