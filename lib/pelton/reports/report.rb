# frozen_string_literal: true

require "json"
require_relative "../runtime/clock"

module Pelton
  module Reports
    # One report of a process, as a reader sees it: frozen, and checked, because anyone may write to a topic.
    #   id          identifies the run of a process: "web-1:4711:1764300000123"
    #   at          when it was made; started_at: when the server started (seconds since 1970)
    #   interval    seconds until the next report
    #   host, pid   of the process; process: its number with --processes, or nil; name: config.client_id
    #   pelton      version; ruby: version
    #   state       "starting", "running", "quieting", "quiet", "stopping" or "stopped"
    #   commands    the topic from which it takes commands; nil: it takes none
    #   settings    those that were changed, without secrets: {"concurrency" => "10", "kafka.linger.ms" => "5"}
    #   groups      ["billing"]; threads: Ruby threads; rss: bytes, or nil; workers: config.concurrency
    #   jobs        {running: 2, waiting: 7, aside: 0}
    #   rates       per second since the report before: {in: {"billing" => 12.5}, out: 3.0, errors: 0.2}
    #   totals      since the start: {in: {"billing" => 4500}, out: 12, errors: 3}; nil: the process does not count them
    #   running     jobs on workers: [{group:, consumer:, topic:, partition:, kind:, since:, called:, messages:,
    #               offset:, long:}, …]. called: when the present call of the user's code began, or nil. offset: of the
    #               message that `process` has, or the first that `consume` has not finished, or nil. long: seconds
    #               from which a call is long, or nil
    #   partitions  {"billing" => {"orders" => [[0, 12, "idle"], …]}}: number, lag (or nil), state
    #   left_out    number of partitions that are not in the report
    #   job_classes of Active Job, within the last hour, or nil: [{class: "MailJob", count: 12, failed: 1, seconds: 3.4,
    #               slowest: 0.9}, …]
    #   errors      the last ones: [{at:, source:, class:, message:, group:, topic:, partition:, offset:,
    #               failure_id:, backtrace:}, …]. backtrace: an id, or nil
    #   backtraces  of these errors, those that are new or were not reported for ten minutes, or nil: [{id:, at:, parts:
    #               [{class:, message:, lines:, shared:, more:}, …]}, …], see Backtraces#take
    # A later version of Pelton may add a field that may be missing (nil): readers ignore what they do not know. If
    # the meaning of a field changes, so does VERSION, and readers ignore reports of another version.
    class Report
      VERSION = 1
      # States of a partition that need no attention. With too many partitions, these are left out first.
      WELL = %w[idle running queued ready].freeze
      # States of a partition whose messages fail.
      BAD = %w[failing stopped unbuilt].freeze
      # Seconds on top of three intervals until a process without a report counts as silent.
      GRACE = 2
      WORDS = [String, nil].freeze
      # JSON's 1e999 is infinite, and so is the sum of two 1e308.
      RATE = ->(v) { v.is_a?(Numeric) && v.abs < 1e15 }
      # Seconds since 1970, or between two reports.
      TIME = ->(v) { v.is_a?(Numeric) && v.between?(0, 1e11) }
      NUMBER = [Integer, nil].freeze
      COUNT = ->(v) { v.is_a?(Integer) && v.between?(0, 2**62) }
      JOB = { group: String, consumer: String, topic: String, partition: Integer, kind: String, since: TIME,
              called: ->(v) { v.nil? || kind?(v, TIME) }, messages: NUMBER, offset: NUMBER,
              long: ->(v) { v.nil? || kind?(v, TIME) } }.freeze
      ERROR = { at: TIME, source: String, class: String, message: String, group: WORDS, topic: WORDS,
                partition: NUMBER, offset: NUMBER, failure_id: WORDS, backtrace: WORDS }.freeze
      PART = { class: String, message: String, lines: ->(v) { list?(v, String) }, shared: COUNT, more: COUNT }.freeze
      BACKTRACE = { id: String, at: TIME, parts: ->(v) { list?(v, PART) && v.any? } }.freeze
      JOB_CLASS = { class: String, count: COUNT, failed: COUNT, seconds: RATE, slowest: RATE }.freeze
      FIELDS = { id: String, at: TIME, started_at: TIME, interval: TIME, host: String, pid: Integer,
                 process: NUMBER, name: String, pelton: String, ruby: String, state: String,
                 commands: WORDS,
                 settings: ->(v) { hash?(v) { |text| text.is_a?(String) } },
                 groups: ->(v) { list?(v, String) }, threads: Integer, workers: Integer,
                 rss: ->(v) { v.nil? || kind?(v, COUNT) },
                 jobs: ->(v) { shaped?(v, running: Integer, waiting: Integer, aside: Integer) },
                 rates: ->(v) { shaped?(v, out: RATE, errors: RATE) && hash?(v[:in], &RATE) },
                 totals: ->(v) { v.nil? || (shaped?(v, out: COUNT, errors: COUNT) && hash?(v[:in], &COUNT)) },
                 running: ->(v) { list?(v, JOB) }, errors: ->(v) { list?(v, ERROR) },
                 job_classes: ->(v) { v.nil? || list?(v, JOB_CLASS) },
                 backtraces: ->(v) { v.nil? || list?(v, BACKTRACE) },
                 partitions: ->(v) { hash?(v) { |topics| hash?(topics) { |rows| rows?(rows) } } },
                 left_out: Integer }.freeze
      private_constant :GRACE, :WORDS, :RATE, :COUNT, :TIME, :NUMBER, :JOB, :ERROR, :PART, :BACKTRACE,
                       :JOB_CLASS, :FIELDS

      class << self
        # The report in a message; nil: it is none, or of a version that this one does not know.
        #: (String?) -> Report?
        def parse(text)
          data = JSON.parse(text.to_s)
          return unless data.is_a?(Hash) && data["version"] == VERSION

          facts = symbolize(data)
          new(facts.slice(*FIELDS.keys)) if shaped?(facts, FIELDS)
        rescue JSON::ParserError, EncodingError
          nil
        end

        private

        # The names of groups and topics stay Strings.
        def symbolize(data)
          data = data.transform_keys(&:to_sym)
          %i[jobs rates totals].each do |key|
            data[key] = data[key].transform_keys(&:to_sym) if data[key].is_a?(Hash)
          end
          %i[running errors job_classes backtraces].each { |key| data[key] = rows(data[key]) }
          data
        end

        # Anything else stays as it is.
        def rows(rows)
          return rows unless rows.is_a?(Array) && rows.all?(Hash)

          rows.map { |row| row.to_h { |name, value| [name.to_sym, name == "parts" ? rows(value) : value] } }
        end

        def shaped?(value, shape)
          value.is_a?(Hash) && shape.all? { |key, kind| kind?(value[key], kind) }
        end

        def kind?(value, kind)
          case kind
          when Proc then instance_exec(value, &kind)
          when Array then kind.any? { |allowed| allowed.nil? ? value.nil? : value.is_a?(allowed) }
          else value.is_a?(kind)
          end
        end

        def list?(value, kind)
          value.is_a?(Array) && value.all? { |entry| kind.is_a?(Hash) ? shaped?(entry, kind) : entry.is_a?(kind) }
        end

        def hash?(value, &each) = value.is_a?(Hash) && value.each_value.all?(&each)

        # A lag may be negative for a moment. A larger number cannot be drawn.
        def rows?(rows)
          rows.is_a?(Array) && rows.all? do |row|
            row in [Integer, Integer | nil => lag, String] and RATE.call(lag.to_i)
          end
        end
      end

      FIELDS.each_key { |name| define_method(name) { @facts[name] } }

      def initialize(facts)
        @facts = facts.freeze
        freeze
      end

      # All facts, by name.
      #: () -> Hash[Symbol, untyped]
      def to_h = @facts

      # "web-1:4711"
      #: () -> String
      def process_name = "#{host}:#{pid}"

      # Did the process end in order?
      #: () -> bool
      def stopped? = state == "stopped"

      # Does the report that should have come by now not come?
      #: (?Float) -> bool
      def silent?(now = Clock.wall) = !stopped? && now - at > (3 * interval) + GRACE

      # Messages that are not done, of all groups or of one.
      #: (?String?) -> Integer
      def lag(group = nil) = each_partition(group).sum { |*, lag, _| lag.to_i }

      # Yields group, topic, partition, lag and state.
      #: (?String?) ?{ (String, String, Integer, Integer?, String) -> void } -> untyped
      def each_partition(group = nil)
        return enum_for(:each_partition, group) unless block_given?

        partitions.each do |id, topics|
          next unless group.nil? || id == group

          topics.each { |topic, rows| rows.each { |number, lag, state| yield id, topic, number, lag, state } }
        end
      end

      # Messages per second that were done, of all groups or of one.
      #: (?String?) -> Numeric
      def rate_in(group = nil) = group ? rates[:in].fetch(group, 0) : rates[:in].each_value.sum

      def inspect = "#<#{self.class} #{process_name} #{state}>"
    end
  end
end
