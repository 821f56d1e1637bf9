# frozen_string_literal: true

require_relative "clock"
require_relative "default_logger"
require_relative "event_text"
require_relative "notifications"
require_relative "threads"

module Pelton
  # Writes an app's failures to config.logger: what would be lost without a word if nobody subscribed. It listens to
  # failures only, so what goes well costs nothing. What repeats itself is written a few times and counted for the rest
  # of WINDOW: a broker that is away is one line in 30 s. Thread-safe.
  class FailureLog
    # Seconds in which only so many lines of one kind are written; the others are counted.
    WINDOW = 30
    # Lines of a kind in that time, by what it is: connections to a broker, messages to a topic that were not delivered,
    # everything else (of one source, group and topic). That all brokers are down is told if it stays the only sign.
    LINES = { connection: 1, delivery: 1, other: 10, all_down: 0 }.freeze
    # Kinds that are known at a time; the oldest are forgotten first.
    KINDS = 1000

    EVENTS = %w[error.occurred kafka.log message.delivery_failed message.skipped message.dead_lettered
                messages.repeated partition.stopped producer.queue_full producer.fatal producer.unclosed
                producer.closed producer.flush_failed transaction.aborted group.restarting app.unhealthy app.forced
                process.ended thread.outlived worker.replaced events.delayed].freeze
    WARN = 2
    METHODS = %i[debug info warn error error].freeze
    # librdkafka logs these beside the error that it reports.
    TOLD_AS_ERROR = %w[FAIL ERROR].freeze
    CONNECTION = %i[_TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _SSL _AUTHENTICATION].freeze
    # "ssl://kafka-1:9093/bootstrap: Connect to … failed" → "kafka-1:9093"
    BROKER = %r{\A(?:\w+://)?([^\s/]+:\d+)/}
    UNDELIVERED = %w[message.delivery_failed producer.flush_failed].freeze
    ALL_DOWN = [:all_down].freeze
    NEVER = { Object => :never }.freeze
    private_constant :ALL_DOWN, :UNDELIVERED, :EVENTS, :WARN, :METHODS, :TOLD_AS_ERROR, :CONNECTION, :BROKER, :NEVER

    # Of one kind: when its window ends, lines written in it, lines counted in it, and the last of those.
    Kind = Struct.new(:ends, :written, :counted, :severity, :text)
    # Logs that counted something: {log => the process it is of}. Guarded by LOCK.
    COUNTING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :Kind, :COUNTING, :LOCK

    @process_ends = false

    class << self
      # While this is so, the default log leaves undelivered messages to Producer::ExitFlush, which counts them.
      #: (process_ends: bool)
      attr_accessor :process_ends

      # Seconds until a log has to tell what it counted; nil: none has. For a thread that waits anyway.
      #: () -> Numeric?
      def due = COUNTING.empty? ? nil : counting.filter_map(&:due).min

      # Writes what was counted in windows that are over; at the end, everything.
      #: (?last: bool) -> void
      def tell(last: false) = COUNTING.empty? ? nil : counting.each { |log| log.tell(last: last) }

      # The log has something to tell later, or no more.
      #: (FailureLog, bool) -> void
      def note(log, counts) = locked { counts ? COUNTING[log] = Process.pid : COUNTING.delete(log) }

      private

      # A forked child has nothing to tell of its parent's.
      def counting = locked { COUNTING.filter_map { |log, pid| log if pid == Process.pid } }

      def locked(&section) = Thread.handle_interrupt(NEVER) { LOCK.synchronize(&section) }
    end

    # window: for tests.
    #: (Config, Notifications, ?window: Numeric) -> void
    def initialize(config, bus, window: WINDOW)
      @config = config
      @bus = bus
      @window = window
      # {[:connection, "kafka-1:9092", :_TRANSPORT] => Kind}. Guarded by @lock, which no user code is called under.
      @kinds = {}
      @pid = Process.pid
      @lock = Mutex.new
      EVENTS.each { |name| bus.subscribe(name) { |event| hear(event) } }
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
        FailureLog.note(self, false) if @kinds.none? { |_, kind| kind.counted.positive? }
        found.values
      end
      over.each { |kind| summarize(kind) if kind.counted.positive? }
    end

    def inspect = "#<#{self.class} #{@kinds.size} kinds>"

    private

    def hear(event)
      logger = target or return
      return if FailureLog.process_ends && logger.equal?(DefaultLogger) && UNDELIVERED.include?(event.name)

      severity, text = EventText.of(event)
      return if severity < WARN && !(FailureLog.process_ends && event.name == "transaction.aborted")

      limit, key = kind(event)
      return unless limit

      first = first?(limit, key, severity, text) { |old| summarize(old) }
      write(severity, text, logger) if first
    end

    # [which of LINES, what is counted together], or nil: another event tells it.
    def kind(event)
      case event.name
      when "error.occurred" then kind_of_error(event)
      when "message.delivery_failed" then [:delivery, [:delivery, event[:topic], event[:error].name]]
      when "kafka.log"
        [:other, [:log, event[:facility]]] unless TOLD_AS_ERROR.include?(event[:facility])
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

    # Under @lock, as the next ones.
    def count(kind, severity, text)
      kind.counted += 1
      kind.severity = severity
      kind.text = text
      FailureLog.note(self, true)
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
      write(kind.severity, "#{kind.text}#{more}")
    end

    # Where to write, or nil.
    def target
      logger = @config.logger
      logger unless logger.nil? || (@config.default_logger? && @bus.logs_failures?)
    end

    def write(severity, text, logger = target)
      return unless logger

      logger.public_send(METHODS.fetch(severity), logger.equal?(DefaultLogger) ? text : "pelton: #{text}")
    end

    # A trap can take no lock, and may write a line too many.
    def locked(&section)
      return yield if Threads.trap?

      Thread.handle_interrupt(NEVER) { @lock.synchronize(&section) }
    end
  end
end
