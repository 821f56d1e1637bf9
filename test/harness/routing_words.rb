# frozen_string_literal: true

require "pelton"
require "stringio"

# Words of routes with random values, several at a time. Pelton accepts them or raises a readable ConfigError. (Ruby
# itself refuses a wrong number of arguments.)
class RoutingWords
  class Consumer < Pelton::Consumer
    def consume = nil
    def tick = nil
  end

  LOOP = [].tap { |list| list << list }.freeze
  # A list of itself twice is 2**50 lists.
  WIDE = 50.times.reduce([1]) { |inner, _| [inner, inner] }.freeze
  VALUES = [nil, true, false, 0, 1, -1, 2, 100, 2**31, 2**70, 0.5, -0.5, 1e308, Float::INFINITY, Float::NAN, 1r, 1i, "",
            "orders", "a b", "ö", "\xff", "x" * 300, "a\0b", :json, :avro, :msgpack, :bytes, :nonsense, [], [1], [nil],
            [[1]], ["a", 0], {}, { a: 1 }, { "a" => nil }, { 1 => 2 }, 1..2, 2..1, 0.1..1, ..5, 1.., "a".."b", /x/,
            Regexp, Object, Consumer, "Consumer", ->(value) { value }, -> {}, proc { |*all| all }, StringIO.new,
            Object.new, BasicObject, LOOP, WIDE, Thread.current, Time.at(0), :skip, :raise, :key, :continue,
            "earliest", "latest", :beginning].freeze
  KEYWORDS = [{ backoff: 1..2 }, { then: :skip }, { by: :key }, { tick_every: 1 }, { retries: 2 }, { parallel: :auto },
              { symbolize_names: true }, { registry: 7 }, { nonsense: 1 },
              { partitions: 3 }, { replication: 0 }, { config: { "cleanup.policy" => WIDE } },
              { config: { "preallocate" => LOOP, retention: 1 } }].freeze
  CHECKS = %i[eq not_eq in not_in gt gteq lt lteq starts_with matches exists].freeze
  WORDS = (Pelton::Routing::TopicWords::WORDS + %i[group topic nonsense]).freeze

  attr_reader :problems, :taken, :inputs

  def initialize(seed:, inputs:, from: 0, seconds: nil)
    @seed = seed
    @numbers = (from...from + inputs)
    @seconds = seconds
    @inputs = @taken = 0
    @problems = []
  end

  def call
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    @numbers.each do |number|
      break if @seconds && Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > @seconds

      try(number)
    end
    self
  end

  def to_s = "#{inputs} routes, #{taken} of them taken"

  private

  def try(number)
    @random = Random.new((@seed * 1_000_003) + number)
    @inputs += 1
    said = []
    drawing(said)
    @taken += 1
  rescue Pelton::ConfigError => e
    complain(number, said, "a message that is no text") unless e.message.valid_encoding? && e.message.size < 5000
  rescue ArgumentError => e
    complain(number, said, e.full_message(highlight: false)) unless of_ruby?(e)
  rescue StandardError, SystemStackError, NotImplementedError => e
    complain(number, said, e.full_message(highlight: false))
  end

  # A wrong number of arguments, an unknown keyword.
  def of_ruby?(error) = error.message.match?(/wrong number of arguments|unknown keyword|missing keyword|no keywords/)

  def drawing(said)
    words = Array.new(1 + @random.rand(2)) { [pick(WORDS), arguments, keywords] }
    conditions = Array.new(@random.rand(2)) { [arguments, pick(CHECKS), arguments] }
    said.replace([words, conditions])
    routing = Pelton::Routing.new
    routing.draw do
      topic("orders", to: Consumer) do
        words.each { |word, arguments, keywords| public_send(word, *arguments, **keywords) }
        conditions.each { |path, check, values| where(*path).public_send(check, *values) }
      end
    end
    config = Pelton::Config.new
    config.group_id = "g"
    config.freeze
    routing.groups(config) if routing.respond_to?(:groups)
  end

  def pick(list) = list[@random.rand(list.size)]
  def arguments = Array.new([0, 1, 1, 1, 2, 3][@random.rand(6)]) { pick(VALUES) }
  def keywords = @random.rand(3).zero? ? pick(KEYWORDS) : {}

  def complain(number, said, what)
    text = said.flatten(1).map { |parts| shown(parts) }.join("; ")
    @problems << "routing: input #{number}, #{text}: #{what.lines.first(6).join}"
  end

  def shown(parts) = parts.map { |part| part.is_a?(Array) ? part.map(&:class) : part }.inspect
end
