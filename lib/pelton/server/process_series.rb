# frozen_string_literal: true

module Pelton
  # The series of one child of `pelton server --processes`, each with the label `process`. Counters and histograms never
  # go back: what a process counted is added to what the next one with its number counts. One thread uses it.
  class ProcessSeries
    UP = "pelton_process_up"
    UP_HEAD = ["# HELP #{UP} 1 if this process of pelton server --processes answered, 0 otherwise.",
               "# TYPE #{UP} gauge"].freeze
    # Types whose samples only grow.
    COUNTED = %w[counter histogram].freeze
    NOT_FINITE = { "+inf" => Float::INFINITY, "inf" => Float::INFINITY, "-inf" => -Float::INFINITY }.freeze
    HEAD = /\A# (?:HELP|TYPE) (?<name>\S+)(?: (?<rest>.*))?\z/
    SAMPLE = /\A(?<name>[\w:]+)(?:\{(?<labels>.*)\})? (?<value>\S+)/
    # One metric. head: its lines HELP and TYPE. samples: {"pelton_jobs{process=\"0\",state=\"running\"}" => "2"}
    Metric = Struct.new(:head, :type, :samples)
    private_constant(*constants(false))

    # The series of all children as text.
    #: (Array[ProcessSeries]) -> String
    def self.text(all)
      metrics = all.flat_map { |one| one.metrics.to_a }.group_by(&:first)
      metrics.each_value.map do |named|
        samples = named.flat_map { |_, metric| metric.samples.map { |sample, value| "#{sample} #{value}\n" } }
        [*named[0][1].head.map { |line| "#{line}\n" }, *samples].join
      end.join
    end

    #: (Integer) -> void
    def initialize(number)
      @label = "process=\"#{number}\""
      # Of the process that answered last: its pid, and {"pelton_jobs" => Metric}.
      @pid = nil
      @last = {}
      # What the processes before it counted.
      @ended = {}
      # Did it answer?
      @up = false
    end

    # Takes the metrics of the process that has the number now, as text. Without any, it did not answer.
    #: (?Integer?, ?String?) -> void
    def take(pid = nil, text = nil)
      @up = !text.nil?
      return unless @up

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
          metrics[name].samples[id(*sample.values_at(:name, :labels))] = sample[:value]
        end
      end
      metrics
    end

    def id(name, labels) = "#{name}{#{[@label, labels].compact.join(",")}}"
    def counted = @last.select { |_, metric| COUNTED.include?(metric.type) }

    def sum(some, more)
      some.merge(more) do |_, one, two|
        samples = one.samples.merge(two.samples) { |_, *values| values.sum { |value| number(value) } }
        Metric.new(two.head, two.type, samples)
      end
    end

    # Sums of histograms may also be NaN, +Inf or -Inf.
    def number(value)
      Integer(value, exception: false) || Float(value, exception: false) || NOT_FINITE.fetch(value.downcase, Float::NAN)
    end
  end
end
