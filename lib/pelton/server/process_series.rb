# frozen_string_literal: true

module Pelton
  # The series of one child of `pelton server --processes`, each with the label `process`. Counters and histograms never
  # go back: what a process counted is added to what the next one with its number counts. A label `process` of the app's
  # own becomes `exported_process`, as Prometheus itself renames such a label. One thread uses it.
  class ProcessSeries
    UP = "pelton_process_up"
    UP_HEAD = ["# HELP #{UP} 1 if this process of pelton server --processes answered, 0 otherwise.",
               "# TYPE #{UP} gauge"].freeze
    LABEL = "process"
    # Types whose samples only grow.
    COUNTED = %w[counter histogram].freeze
    # Types of Prometheus' text format.
    PLAIN = [*COUNTED, "gauge", "summary", "untyped"].freeze
    NOT_FINITE = { "+inf" => Float::INFINITY, "inf" => Float::INFINITY, "-inf" => -Float::INFINITY }.freeze
    HEAD = /\A# (?:HELP|TYPE|UNIT) (?<name>\S+)(?: (?<rest>.*))?\z/
    # A value, whose text may have braces, commas and escaped quotes.
    QUOTED = /"(?:[^"\\]|\\.)*"/
    # What follows the value, a time or an exemplar, is left out.
    SAMPLE = /\A(?<name>[\w:]+)(?:\{(?<labels>(?:[^"}]|#{QUOTED})*)\})?[ \t]+(?<value>\S+)/
    PAIR = /(\w+)\s*=\s*(#{QUOTED})/
    # One metric. head: its lines HELP, TYPE and UNIT. samples: {"pelton_jobs{process=\"0\",state=\"running\"}" => "2"}
    Metric = Struct.new(:head, :type, :samples)
    private_constant(*constants(false))

    # The series of all children as text. open: in the OpenMetrics format; only if all answered in it.
    #: (Array[ProcessSeries], ?open: bool) -> String
    def self.text(all, open: false)
      metrics = all.flat_map { |series| series.metrics.to_a }.group_by(&:first)
      text = metrics.map do |name, named|
        samples = named.flat_map { |_, metric| metric.samples.map { |sample, value| "#{sample} #{value}\n" } }
        [*head(name, named[0][1], open).map { |line| "#{line}\n" }, *samples].join
      end.join
      open ? "#{text}# EOF\n" : text
    end

    # The text format has no units and fewer types, and there the name of a counter ends as that of its samples.
    def self.head(name, metric, open)
      return metric.head if open
      return [] unless PLAIN.include?(metric.type)

      total = metric.type == "counter" && metric.samples.each_key.all? { |sample| sample.start_with?("#{name}_total{") }
      lines = metric.head.reject { |line| line.start_with?("# UNIT") }
      total ? lines.map { |line| line.sub(/\A# \w+ \S+/) { |start| "#{start}_total" } } : lines
    end
    private_class_method :head

    #: (Integer) -> void
    def initialize(number)
      @label = "#{LABEL}=\"#{number}\""
      # Of the process that answered last: its pid, and {"pelton_jobs" => Metric}.
      @pid = nil
      @last = {}
      # What the processes before it counted.
      @ended = {}
      # Did it answer?
      @up = false
      # Was its last answer in the OpenMetrics format?
      @open = true
    end

    #: () -> bool
    def open? = @open

    # Takes the metrics of the process that has the number now, as text. Without any, it did not answer.
    #: (?Integer?, ?String?, ?open: bool) -> void
    def take(pid = nil, text = nil, open: false)
      @up = !text.nil?
      return unless @up

      @open = open
      @ended = sum(@ended, counted) unless pid == @pid
      @pid = pid
      @last = parse(text)
    end

    # {"pelton_jobs" => Metric}. Without an answer, only what was counted before.
    #: () -> Hash[String, untyped]
    def metrics
      { **sum(@ended, @up ? @last : counted), UP => Metric.new(UP_HEAD, "gauge", { id(UP, nil) => @up ? 1 : 0 }) }
    end

    private

    def parse(text)
      metrics = Hash.new { |all, name| all[name] = Metric.new([], nil, {}) }
      name = nil
      text.each_line(chomp: true) do |line|
        if (head = HEAD.match(line))
          name = head[:name]
          metrics[name].head << line
          metrics[name].type = head[:rest] if line.start_with?("# TYPE")
        elsif (sample = SAMPLE.match(line))
          name = sample[:name] unless name && sample[:name].start_with?(name) # it has no head
          add(metrics[name], *sample.values_at(:name, :labels, :value))
        end
      end
      metrics
    end

    # When a counter was created has no meaning once it goes on from process to process.
    def add(metric, name, labels, value)
      return if COUNTED.include?(metric.type) && name.end_with?("_created")

      metric.samples[id(name, labels)] = value
    end

    def id(name, labels)
      pairs = labels.to_s.scan(PAIR)
      free = "exported_#{LABEL}"
      free = "exported_#{free}" while pairs.assoc(free)
      pairs.map! { |label, value| "#{label == LABEL ? free : label}=#{value}" }
      "#{name}{#{[@label, *pairs].join(",")}}"
    end

    def counted = @last.select { |_, metric| COUNTED.include?(metric.type) }

    def sum(some, more)
      some.merge(more) do |_, earlier, later|
        samples = earlier.samples.merge(later.samples) { |_, *values| values.sum { |value| number(value) } }
        Metric.new(later.head, later.type, samples)
      end
    end

    # Sums of histograms may also be NaN, +Inf or -Inf.
    def number(value)
      Integer(value, exception: false) || Float(value, exception: false) || NOT_FINITE.fetch(value.downcase, Float::NAN)
    end
  end
end
