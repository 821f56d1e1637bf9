# frozen_string_literal: true

require_relative "../background"
require_relative "../reports/reports"
require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "series"
require_relative "trend_sample"

module Pelton
  class Web
    # Numbers of a day and of a week: of processes, from the topic with their reports (TrendReading), or of a topic,
    # from the offsets of some times (TopicReading). It keeps the numbers of each time, so the work and the memory do
    # not grow with what a topic has. The first page that shows such a time starts a thread, "pelton.web.trends", which
    # ends when it has read what is missing. The next page that misses a newer time starts it again.
    class Trends
      # span: seconds that a plot shows. step: seconds between two times.
      Range = Struct.new(:name, :span, :step)
      RANGES = { "24h" => Range.new("24 h", 86_400, 900).freeze,
                 "7d" => Range.new("7 d", 604_800, 3_600).freeze }.freeze
      # What is known of a range. done, total: times that were read, and those there are. problem: why the topic could
      # not be read, or nil.
      State = Struct.new(:done, :total, :problem, keyword_init: true) do
        def complete? = done == total
      end
      # Seconds until another attempt after a failure, and for the end of the thread.
      RETRY = 15
      CLOSE = 15
      private_constant :RETRY, :CLOSE

      # The block reads. It gets times and a Background::Stop, and yields each time with what `sample` makes numbers of.
      # That is, for example, the latest report of each process that reported shortly before. clock: returns the time,
      # in seconds since 1970.
      #: (?clock: ^() -> Numeric, ?sample: untyped) { (Array[Integer], Background::Stop) { (Integer, untyped) -> void } -> void } -> void
      def initialize(clock: Clock.method(:wall), sample: TrendSample, &read)
        @sample = sample
        @read = read
        @clock = clock
        @lock = Mutex.new
        # Under @lock. {"24h" => {time => TrendSample#values}}, the oldest first.
        @samples = Hash.new { |all, name| all[name] = {} }
        @thread = @stop = @problem = @failed_at = nil
      end

      # What is known of "24h" or "7d"; starts to read what is not.
      #: (String) -> State
      def look(name)
        @lock.synchronize do
          times = times(name)
          @samples[name].delete_if { |time, _| time < times.first }
          missing = missing(name, times)
          start(name, missing) unless missing.empty?
          State.new(done: times.count { |time| @samples[name].key?(time) }, total: times.size, problem: @problem)
        end
      end

      # Numbers of a range: messages per second that were done (:in) and sent (:out), :errors per second, :lag, and
      # how many :processes there were. Of a topic: messages per second that it got (:produced).
      #   series("24h", :lag)                       # of all processes
      #   series("24h", :in, :group, "billing")     # also :lag
      #   series("24h", :rss, :process, "web-1:4711:1764300000123")
      #: (String, *untyped) -> Series
      def series(name, *words)
        samples = @lock.synchronize { @samples[name].dup }
        range = RANGES.fetch(name)
        samples.each_with_object(Series.new(range.span, gap: range.step * 1.5)) do |(time, values), series|
          value = values[words]
          series.add(time.to_f, value) if value
        end
      end

      # Ends the thread, also while it waits for Kafka.
      #: () -> void
      def close
        stop, thread = @lock.synchronize { [@stop, @thread] }
        stop&.ask
        Threads.join([*thread&.kill], CLOSE)
      end

      private

      # The times of a range up to now, each a multiple of its step.
      def times(name)
        step = RANGES.fetch(name).step
        last = @clock.call.to_i / step * step
        (last - RANGES.fetch(name).span + step).step(last, step).to_a
      end

      # Under @lock. Times after the last one that was read: none after the clock was set back.
      def missing(name, times)
        known = @samples[name].keys.last
        known ? times.select { |time| time > known } : times
      end

      # Under @lock. One thread reads; another range has to wait for it. A forked child has none, and starts one.
      def start(name, missing)
        return if @thread&.alive? || (@failed_at && Clock.now - @failed_at < RETRY)

        stop = @stop = Background::Stop.new
        @thread = Threads.start("pelton.web.trends") { read(name, missing, stop) }
      end

      # The sample before the first that is missing, too: rates come from two.
      def read(name, missing, stop)
        before = nil
        @read.call([missing.first - RANGES.fetch(name).step, *missing], stop) do |time, found|
          sample = @sample.of(found, time, before)
          keep(name, sample) if before
          before = sample
        end
      rescue StandardError => e # the page shows it
        @lock.synchronize do
          @problem = e
          @failed_at = Clock.now
        end
      end

      def keep(name, sample)
        @lock.synchronize do
          @samples[name][sample.time] = sample.values
          @problem = @failed_at = nil
        end
      end
    end
  end
end
