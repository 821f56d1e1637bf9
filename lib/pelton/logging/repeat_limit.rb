# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "default_logger"
require_relative "../errors"
require_relative "printable"
require_relative "../runtime/threads"

module Pelton
  # Decides which failures a log writes, and which it only counts. The first few of a kind are written; the rest of
  # WINDOW are counted, and the count is written when that time is over: a broker that is away is one line in 30 s.
  # FailureLog and Reporters::Log have one each. Thread-safe.
  class RepeatLimit
    # Seconds in which only so many lines of one kind are written; the others are counted.
    WINDOW = 30
    # Lines of a kind in that time, by what it is: connections to a broker, messages to a topic that were not delivered,
    # everything else (of one source, group and topic). That all brokers are down is told if it stays the only sign.
    LINES = { connection: 1, delivery: 1, other: 10, all_down: 0 }.freeze
    # Kinds that are known at a time; the oldest are forgotten first.
    KINDS = 1000

    # librdkafka logs these about a broker; up to syslog's level 3 it also reports them as an error.
    TOLD_AS_ERROR = %w[FAIL ERROR].freeze
    ERROR_LEVEL = 3
    CONNECTION = %i[_TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _SSL _AUTHENTICATION].freeze
    # "ssl://kafka-1:9093/bootstrap: Connect to … failed" → "kafka-1:9093", and so
    # "GroupCoordinator: kafka-1:9093: Connect to … failed"
    BROKER = %r{\A(?:\w+://|\w+: )?([^\s/]+:\d+)[/:]}
    ALL_DOWN = [:all_down].freeze
    NEVER = { Object => :never }.freeze
    private_constant :ALL_DOWN, :ERROR_LEVEL, :CONNECTION, :BROKER, :NEVER

    # Events of one severity, whatever they say. They may come by the thousand.
    ALIKE = %w[error.occurred message.delivery_failed message.skipped message.dead_lettered].freeze
    private_constant :ALIKE

    # Of one kind: when its window ends, lines written in it, lines counted in it, and one of those.
    Kind = Struct.new(:ends, :written, :counted, :severity, :text)
    # Limits that counted something: {limit => the process it is of}. Guarded by LOCK.
    COUNTING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :Kind, :COUNTING, :LOCK

    class << self
      # Seconds until a log has to tell what it counted; nil: none has. For a thread that waits anyway.
      #: () -> Numeric?
      def due = COUNTING.empty? ? nil : counting.filter_map(&:due).min

      # Writes what was counted in windows that are over; at the end, everything. A log that raises stops no other one,
      # and not the thread that calls this.
      #: (?last: bool) -> void
      def tell(last: false)
        return if COUNTING.empty?

        counting.each do |limit|
          limit.tell(last: last)
        rescue StandardError => e
          DefaultLogger.error("a log raised #{e.class}: #{Printable.line(e.message)}")
        end
      end

      # The limit has something to tell later, or no more.
      #: (RepeatLimit, bool) -> void
      def note(limit, counts) = locked { counts ? COUNTING[limit] = Process.pid : COUNTING.delete(limit) }

      private

      # A forked child has nothing to tell of its parent's.
      def counting = locked { COUNTING.filter_map { |limit, pid| limit if pid == Process.pid } }

      # A trap can take no lock.
      def locked(&section) = Threads.trap? ? yield : Thread.handle_interrupt(NEVER) { LOCK.synchronize(&section) }
    end

    # The block writes a line with a count, in whatever thread tells it. window: for tests.
    #: (?window: Numeric) { (Integer, String) -> void } -> void
    def initialize(window: WINDOW, &write)
      @window = window
      @write = write
      # {[:connection, "kafka-1:9092", :_TRANSPORT] => Kind}. Guarded by @lock, which no user code is called under.
      @kinds = {}
      @pid = Process.pid
      @lock = Mutex.new
    end

    # Is this event only counted? Then it is, and needs no text.
    #: (Events::Event) -> bool
    def counts?(event)
      return false unless ALIKE.include?(event.name)

      limit, key = kind(event)
      limit.nil? || locked { again?(key) }
    end

    # Is this event's line to be written now? false: it is counted, or another event tells it.
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
    def tell(last: false)
      now = Clock.now
      over = locked do
        found = @kinds.select { |_, kind| last || kind.ends <= now }
        found.each_key { |key| @kinds.delete(key) }
        RepeatLimit.note(self, false) if @kinds.none? { |_, kind| kind.counted.positive? }
        found.values
      end
      over.each { |kind| summarize(kind) if kind.counted.positive? }
    end

    # Kinds that are known now.
    #: () -> Integer
    def size = @kinds.size

    def inspect = "#<#{self.class} #{size} kinds>"

    private

    # [which of LINES, what is counted together], or nil: another event tells it.
    def kind(event)
      case event.name
      when "error.occurred" then kind_of_error(event)
      when "message.delivery_failed" then [:delivery, [:delivery, event[:topic], name(event[:error])]]
      when "kafka.log"
        facility = event[:facility]
        [:other, [:log, facility]] unless TOLD_AS_ERROR.include?(facility) && event[:level] <= ERROR_LEVEL
      else
        [:other, [event.name, *event.payload.values_at(:client, :group, :topic)]]
      end
    end

    def kind_of_error(event)
      error = event[:error]
      if error.is_a?(KafkaError) && event[:source] == "kafka" && CONNECTION.include?(error.name)
        if error.name == :_ALL_BROKERS_DOWN
          return connection_told? ? nil : [:all_down, ALL_DOWN]
        end

        return [:connection, [:connection, error.reason[BROKER, 1] || event[:client], error.name]]
      end
      [:other, [:error, event[:source], error.class, *event.payload.values_at(:group, :topic)]]
    end

    def name(error) = error.is_a?(KafkaError) ? error.name : error.class

    def connection_told?
      now = Clock.now
      locked { @kinds.any? { |(what, *), kind| what == :connection && kind.ends > now } }
    end

    # Yields the kind from before, if it counted something that was not told; true: this line is to be written.
    def first?(limit, key, severity, text)
      old = nil
      first = locked do
        start_anew unless @pid == Process.pid
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

    # Under @lock, as the next ones. Was one like it counted in this window?
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

    # Under @lock: a forked child.
    def start_anew
      @kinds.clear
      @pid = Process.pid
    end

    def summarize(kind)
      others = kind.counted - 1
      more = " (and #{others} more like it within #{@window} s)" if others.positive?
      @write.call(kind.severity, "#{kind.text}#{more}")
    end

    # A trap can take no lock, and may write a line too many.
    def locked(&section)
      return yield if Threads.trap?

      Thread.handle_interrupt(NEVER) { @lock.synchronize(&section) }
    end
  end
end
