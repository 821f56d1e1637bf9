# frozen_string_literal: true

require_relative "../background"
require_relative "../logging/numbers"
require_relative "../offsets/markers"
require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "observation"
require_relative "series"
require_relative "waits"

module Pelton
  class Web
    # Looks at the cluster every few seconds and remembers an hour in memory. The first page starts its thread,
    # "pelton.web.history"; an hour without a request ends it. In a forked child it starts again.
    class History
      # Seconds between two looks, those that Kafka has for an answer, and those of a look at most.
      INTERVAL = 5
      TIMEOUT = 15
      LONGEST = 60
      # A large cluster is remembered more coarsely, to save memory.
      LARGE = 1000
      COARSE = 30
      # Seconds for the end of the thread.
      CLOSE = 15
      # Seconds without a look that succeeded after which plots have a gap.
      GAP = 60
      # Most entries in the list of changes, and characters of the partitions that an entry names.
      CHANGES = 200
      NAMES = 200
      private_constant :LONGEST, :LARGE, :COARSE, :CLOSE, :GAP, :CHANGES, :NAMES

      # admin: returns the admin client. markers: finds lags that are none. waits: knows what came before it looked.
      #: (?interval: Numeric, ?markers: Offsets::Markers?, ?waits: Waits?) { () -> Admin } -> void
      def initialize(interval: INTERVAL, markers: nil, waits: nil, &admin)
        @admin = admin
        @markers = markers
        @waits = waits
        @interval = interval
        @lock = Mutex.new
        @looked = ConditionVariable.new
        # Under @lock.
        reset
      end

      # The last Observation, or nil; the last look's KafkaError, or nil. Waits up to `seconds` for the first look.
      #: (?Numeric) -> [Observation?, StandardError?]
      def latest(seconds = TIMEOUT)
        deadline = Clock.deadline(seconds)
        @lock.synchronize do
          start
          @asked_at = Clock.now
          @looked.wait(@lock, Clock.left(deadline)) until @observation || @error || Clock.left(deadline).zero?
          [@observation, @error]
        end
      end

      # For how many seconds the look that runs now has been waiting for Kafka; 0: none runs.
      #: () -> Numeric
      def looking_for = @lock.synchronize { @began ? Clock.now - @began : 0 }

      # The Series of these words; an empty one for what is unknown.
      #   [:produced]                   messages per second that all topics got; [:produced, "orders"] one topic
      #   [:consumed], [:lag]           of all groups; with a name, of one group
      #   [:wait]                       the longest wait of all groups, in seconds
      #   [:end, ["orders", 0]]         the end of a partition
      #   [:lag, "billing", ["orders", 0]]
      #: (*untyped) -> Series
      def series(*words) = @lock.synchronize { @series[words].dup } || Series::EMPTY

      # What changed in groups, newest first: [[seconds since 1970, group, text], …].
      #: (?String?) -> Array[[Float, String, String]]
      def changes(group = nil) = @lock.synchronize { @changes.select { |_, id,| group.nil? || id == group } }.reverse

      # How long the oldest message waits that the group has not done, in seconds; nil: nothing waits, or unknown.
      #: (Observation, String, ?[String, Integer]?) -> Float?
      def waiting(observation, group, topic_partition = nil)
        all = topic_partition ? [topic_partition] : observation.lags(group).select { |_, lag| lag.positive? }.keys
        all.filter_map do |pair|
          commit = observation.commits.dig(group, pair)
          next unless observation.lags(group).fetch(pair, 0).positive?

          since = series(:end, pair).above(commit)
          observation.at - @before.fetch([pair, commit], since) if since
        end.max
      end

      # Since when the dashboard has seen that messages wait in a partition and the group commits nothing there; nil:
      # nothing waits.
      #: (String, [String, Integer]) -> Float?
      def stuck_since(group, topic_partition)
        waiting = series(:lag, group, topic_partition).above(0)
        _, committed = @lock.synchronize { @commits.dig(group, topic_partition) }
        [waiting, committed].max if waiting && committed
      end

      # One look; the thread calls it.
      #: () -> void
      def look
        @lock.synchronize { @began = Clock.now }
        found = Observation.take(@admin.call, timeout: TIMEOUT, longest: LONGEST)
        found = without_markers(found) if @markers
        @lock.synchronize { remember(found) }
        @before = @waits.since(long_ago(found), found.at).dup if @waits
        longest = found.groups.keys.filter_map { |id| waiting(found, id) }.max || 0
        @lock.synchronize do
          add(found, 0, longest, :wait)
          @error = nil
          @looked.broadcast
        end
      rescue StandardError => e # Kafka is away, or a right is missing: the pages say so
        @lock.synchronize do
          @error = e
          @looked.broadcast
        end
      ensure
        @lock.synchronize { @began = nil }
      end

      # Ends the thread, also in the middle of a look.
      #: () -> void
      def close
        stop, thread = @lock.synchronize { [@stop, @thread] }
        stop&.ask
        Threads.join([*thread&.kill], CLOSE)
      end

      private

      # The observation with 0 in place of lags that are none. The first look reads all small lags, as it knows none of
      # them. Later a lag is read once it did not move since the last look.
      def without_markers(now)
        spans = now.spans
        none = @markers.among(spans, readable: @observation ? spans & @observation.spans : spans)
        none.empty? ? now : now.without(none)
      end

      # {[["orders", 0], commit] => time of the first look that is known}: what already waited then.
      def long_ago(found)
        spans = found.groups.keys.flat_map do |id|
          found.lags(id).filter_map { |pair, lag| [pair, found.commits.dig(id, pair)] if lag.positive? }
        end
        spans.uniq.filter_map do |topic_partition, commit|
          ends = series(:end, topic_partition)
          [[topic_partition, commit], ends.begin] if ends.above(commit) == ends.begin
        end.to_h
      end

      def reset
        @pid = Process.pid
        # began: when the look that runs began.
        @thread = @stop = @observation = @error = @began = nil
        @asked_at = Clock.now
        @series = {}
        # {[["orders", 0], commit] => since when its message waits}, if that was before the first look.
        @before = {}
        # {"billing" => {["orders", 0] => [commit, when it was first seen]}}
        @commits = {}
        @changes = []
      end

      # Under @lock.
      def start
        reset if @pid != Process.pid
        return if @thread&.alive?

        stop = @stop = Background::Stop.new
        @thread = Threads.start("pelton.web.history") do
          look
          look until stop.wait(@interval) || Clock.now - @asked_at > Series::SPAN
        end
      end

      def remember(now)
        before = @observation
        every = now.ends.size > LARGE ? COARSE : 0
        now.ends.each { |topic_partition, last| add(now, every, last, :end, topic_partition) }
        rates(before, now) if before
        add_lags(now, every)
        note_changes(before, now) if before
        note_commits(now)
        forget(now)
        @observation = now
      end

      def add_lags(now, every)
        now.groups.each_key do |id|
          lags = now.lags(id)
          lags.each { |topic_partition, lag| add(now, every, lag, :lag, id, topic_partition) }
          add(now, 0, lags.values.sum, :lag, id) unless lags.empty?
        end
        add(now, 0, now.groups.keys.sum { |id| now.lag(id).to_i }, :lag)
      end

      def note_commits(now)
        @commits = now.commits.to_h do |id, commits|
          before = @commits.fetch(id, {})
          rows = commits.to_h do |topic_partition, commit|
            known = before[topic_partition]
            [topic_partition, known&.first == commit ? known : [commit, now.at].freeze]
          end
          [id, rows]
        end
      end

      # Groups and topics that are gone.
      def forget(now) = @series.delete_if { |_, series| series.end < now.at - Series::SPAN }

      def rates(before, now)
        seconds = [now.at - before.at, 0.001].max
        produced = grown(before.ends, now.ends).group_by { |(topic, _), _| topic }
        add_rates(now, seconds, :produced, produced.transform_values { |rows| rows.sum(&:last) })
        consumed = now.commits.to_h { |id, all| [id, grown(before.commits.fetch(id, {}), all).values.sum] }
        add_rates(now, seconds, :consumed, consumed)
      end

      # counts: {"orders" => messages}
      def add_rates(now, seconds, kind, counts)
        counts.each { |name, count| add(now, 0, count / seconds, kind, name) }
        add(now, 0, counts.values.sum / seconds, kind)
      end

      # A seek backwards, or a topic that was created again, counts as nothing.
      def grown(before, now) = now.to_h { |pair, offset| [pair, [offset - before.fetch(pair, offset), 0].max] }

      def add(now, every, value, *words) = (@series[words] ||= Series.new(gap: GAP)).add(now.at, value, every)

      def note_changes(before, now)
        now.groups.each do |id, group|
          old = before.groups[id]
          next note(now, id, "appeared, #{group.state}") unless old

          note(now, id, "#{old.state} → #{group.state}") if old.state != group.state
          note_members(before, now, id)
        end
        (before.groups.keys - now.groups.keys).each { |id| note(now, id, "is gone") }
      end

      # "billing on 10.0.0.1": members of an app have one client id.
      def note_members(before, now, id)
        old, new = [before, now].map do |observation|
          observation.groups[id].members.to_h do |member|
            [member.id, "#{member.client_id} on #{member.host.delete_prefix("/")}"]
          end
        end
        new.except(*old.keys).each_value { |member| note(now, id, "#{member} joined") }
        old.except(*new.keys).each_value { |member| note(now, id, "#{member} left") }
        note_owners(before.owners(id), now, id)
      end

      def note_owners(before, now, id)
        moved = now.owners(id).reject { |topic_partition, owner| before[topic_partition]&.id == owner.id }.keys
        return if moved.empty?

        names = Numbers.partitions(moved)
        names = "#{names[0, NAMES]}…" if names.size > NAMES
        note(now, id, "#{moved.size} #{moved.size == 1 ? "partition" : "partitions"} got another owner: #{names}")
      end

      def note(now, id, text)
        @changes << [now.at, id, text]
        @changes.shift if @changes.size > CHANGES
      end
    end
  end
end
