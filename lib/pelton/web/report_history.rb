# frozen_string_literal: true

require_relative "../reports/reports"
require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "error_history"
require_relative "series"

module Pelton
  class Web
    # Follows the reports of server processes: keeps the latest one of each process, and an hour of their numbers and
    # errors. The first page about processes starts its thread, "pelton.web.reports", which reads the last hour from the
    # topic. The first report after an hour without such a page ends it.
    class ReportHistory
      # What is remembered of each process: rates as means, the others as they were last.
      RATES = { in: :rate_in.to_proc, out: ->(report) { report.rates[:out] },
                errors: ->(report) { report.rates[:errors] } }.freeze
      LEVELS = { lag: :lag.to_proc, rss: :rss.to_proc }.freeze
      # Seconds between two remembered numbers.
      EVERY = 10
      # An hour of 50 processes with 200 partitions each is 150 MB of JSON. So after the first MANY reports, of those
      # older than RECENT seconds only one each THIN seconds is read per process, and the last one.
      MANY = 10_000
      RECENT = 60
      THIN = 30
      # Seconds of which a sum of all processes has one value.
      STEP = 30
      # Seconds, and intervals, without a report after which the numbers of a process are not known.
      GAP = 60
      MISSED = 3
      # Most processes that are remembered; the oldest are forgotten.
      PROCESSES = 500
      # Seconds that a page about processes and any other page wait for a reading, and between two attempts to read.
      WAIT = 5
      SOON = 2
      RETRY = 5
      CLOSE = 15
      # Seconds by which the clock of a process may differ from ours.
      SKEW = 15
      private_constant :RATES, :LEVELS, :EVERY, :RECENT, :THIN, :STEP, :GAP, :MISSED, :WAIT, :SOON, :RETRY, :CLOSE,
                       :SKEW

      # The block reads the topic of the reports: it gets options of App#each, and a Proc that takes a message.
      #: () { (Hash[Symbol, untyped], ^(Message) -> void) -> void } -> void
      def initialize(&read)
        @read = read
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Under @lock. {"web-1:4711:1764300000123" => Report}, its report before, {[:lag, the same] => Series}, the
        # oldest first.
        @latest = {}
        @before = {}
        @series = {}
        @errors = ErrorHistory.new
        # {"web-1:4711" => [seconds that its clock is ahead (< 0: behind), when that was seen]}. Under @lock.
        @skews = {}
        @thread = @problem = @failed_at = nil
        # Is the topic read up to its end?
        @complete = false
        # Of the thread alone. {key of a message => when the last one that was parsed was sent, in ms}. Then the last
        # ones that were not parsed, and how many messages came.
        @parsed = {}
        @skipped = {}
        @taken = 0
      end

      # Why the reports cannot be read; nil: they can.
      #: () -> StandardError?
      def problem = @lock.synchronize { @problem }

      # Did the last reading fail? Another one may have begun since.
      #: () -> bool
      def failed? = @lock.synchronize { !@failed_at.nil? }

      # Is the topic read up to its end?
      #: () -> bool
      def complete? = @lock.synchronize { @complete }

      # The latest report of each process that reported within the last hour. Waits up to `seconds` for the first
      # reading.
      #: (?Numeric) -> Array[Reports::Report]
      def latest(seconds = WAIT)
        deadline = Clock.deadline(seconds)
        @lock.synchronize do
          @asked_at = Clock.now
          start
          @changed.wait(@lock, Clock.left(deadline)) until @complete || @problem || Clock.left(deadline).zero?
          @latest.values.sort_by { |report| [report.host, report.pid, report.at] }
        end
      end

      # The same for a page that also shows other things: it waits less, and not after a failure.
      #: () -> Array[Reports::Report]
      def soon = latest(failed? ? 0 : SOON)

      # The same, of what is read already: neither waits nor reads.
      #: () -> Array[Reports::Report]
      def known = @lock.synchronize { @latest.values }

      # For each process, the report before its latest one.
      #: () -> Array[Reports::Report]
      def before = @lock.synchronize { @before.values }

      # Messages per second that a process did (:in) and sent (:out), its :errors per second, :lag and memory (:rss).
      #: (Symbol, String) -> Series
      def series(kind, id) = @lock.synchronize { @series[[kind, id]].dup } || Series::EMPTY

      # The same as the sum of all processes, up to the last STEP that is over. It has a gap where no process reported.
      #: (Symbol) -> Series
      def total(kind)
        all = @lock.synchronize { @latest.keys.filter_map { |id| @series[[kind, id]]&.parts(Series::SPAN) } }
        by_step(all.flatten(1).flat_map { |part| steps(part) })
      end

      # How many processes there were, from the first report of each to its last one, or to now if it is live. Between
      # the last report of one and the first of another one, there were none.
      #: () -> Series
      def processes
        all = @lock.synchronize { @latest.map { |id, report| [report, @series[[:lag, id]].points.map(&:first)] } }
        pairs = all.flat_map do |report, times|
          times << Clock.wall unless report.stopped? || report.silent?
          first, last = times.minmax.map { |at| step(at) }
          (first..last).map { |step| [step, 1] }
        end
        first = pairs.map(&:first).min || step(Clock.wall)
        by_step(pairs + (first..step(Clock.wall)).map { |step| [step, 0] })
      end

      # The errors of the last hour, newest first.
      #: () -> Array[ErrorHistory::Failure]
      def failures = @lock.synchronize { @errors.since(Clock.wall - Series::SPAN) }

      # Where errors with this id were raised, as a row of Report#backtraces; nil: it is not known.
      #: (String?) -> Hash[Symbol, untyped]?
      def backtrace(id) = @lock.synchronize { @errors.backtrace(id) }

      # Processes whose clock differs from ours, as their reports show when they arrive: {"web-1:4711" => seconds that
      # it is ahead, or behind (< 0)}.
      #: () -> Hash[String, Float]
      def skews
        oldest = Clock.now - Series::SPAN
        @lock.synchronize { @skews.select { |_, (_, seen)| seen >= oldest } }.transform_values(&:first)
      end

      # For the thread: remembers a report.
      #: (Reports::Report) -> void
      def add(report)
        # From a clock that is wrong by more than an hour, or from the topic's past.
        return if (report.at - Clock.wall).abs > Series::SPAN

        @lock.synchronize do
          before = @latest[report.id]
          next if before && before.at >= report.at # read once more

          @errors.add(report, before)
          @latest[report.id] = report
          @before[report.id] = before if before
          note_numbers(report)
          forget
        end
      end

      # Ends the thread.
      #: () -> void
      def close
        thread = @lock.synchronize { @thread }
        Threads.join([*thread&.kill], CLOSE)
      end

      private

      def step(time) = (time / STEP).floor

      # [[step, value], …] of values without a gap: each holds for the time since the one before.
      def steps(points)
        pairs = points.each_with_index.flat_map do |(at, value), index|
          first = index.zero? ? step(at) : step(points[index - 1].first) + 1
          ([first, step(at)].min..step(at)).map { |step| [step, value] }
        end
        pairs.group_by(&:first).map { |step, some| [step, some.sum(&:last).fdiv(some.size)] }
      end

      # pairs: [[step, number], …], which are added for each step.
      def by_step(pairs)
        now = step(Clock.wall)
        sums = pairs.group_by(&:first).transform_values { |some| some.sum(&:last) }.reject { |step, _| step == now }
        sums.sort.each_with_object(Series.new(gap: STEP * 1.5)) { |(step, sum), all| all.add((step + 1.0) * STEP, sum) }
      end

      # Under @lock. A forked child has no thread, and starts one.
      def start
        return if @thread&.alive? || (@failed_at && Clock.now - @failed_at < RETRY)

        @problem = nil
        @complete = false
        @thread = Threads.start("pelton.web.reports") { follow }
      end

      def follow
        left = []
        @taken = 0
        options = { from: Time.at(Clock.wall - Series::SPAN), follow: true, on_begin: ->(spans) { left = spans.keys },
                    reached_end: ->(*topic_partition) { left.delete(topic_partition) && left.empty? && completed } }
        @read.call(options, method(:take).to_proc)
      rescue StandardError => e # the pages show it
        @lock.synchronize do
          @problem = e
          @failed_at = Clock.now
          @thread = nil
          @changed.broadcast
        end
      end

      def take(message)
        needed?(message) ? read(message) : skip(message)
        Thread.exit if Clock.now - @lock.synchronize { @asked_at } > Series::SPAN
      end

      def needed?(message)
        return true if (@taken += 1) <= MANY

        last = @parsed[message.raw_key]
        at = message.timestamp_ms.to_i
        last.nil? || at - last >= THIN * 1000 || at > (Clock.wall - RECENT) * 1000
      end

      def skip(message)
        @skipped[message.raw_key] = message
        @skipped.shift if @skipped.size > PROCESSES
      end

      def read(message)
        @skipped.delete(message.raw_key)
        @parsed[message.raw_key] = message.timestamp_ms.to_i
        @parsed.shift if @parsed.size > PROCESSES
        report = Reports::Report.parse(message.raw_payload)
        return unless report

        note_clock(report)
        add(report)
      end

      # Reports of the past do not tell it.
      def note_clock(report)
        ahead = report.at - Clock.wall
        @lock.synchronize do
          return unless @complete

          @skews.delete(report.process_name)
          @skews[report.process_name] = [ahead, Clock.now] if ahead.abs > SKEW
          @skews.shift if @skews.size > PROCESSES
        end
      end

      def completed
        @skipped.each_value { |message| read(message) }
        @lock.synchronize do
          @complete = true
          @failed_at = nil
          @changed.broadcast
        end
      end

      def note_numbers(report)
        RATES.each { |kind, read| note(kind, report, read, mean: true) }
        LEVELS.each { |kind, read| note(kind, report, read, mean: false) }
      end

      def note(kind, report, read, mean:)
        value = read.call(report) or return
        series = @series[[kind, report.id]] ||= Series.new(gap: [GAP, MISSED * report.interval].max)
        series.add(report.at, value, EVERY, mean: mean)
      end

      def forget
        oldest = Clock.wall - Series::SPAN
        gone = @latest.select { |_, report| report.at < oldest }.keys
        gone << @latest.min_by { |_, report| report.at }.first if @latest.size - gone.size > PROCESSES
        gone.each do |id|
          [@latest, @before].each { |known| known.delete(id) }
          [*RATES.keys, *LEVELS.keys].each { |kind| @series.delete([kind, id]) }
        end
      end
    end
  end
end
