# frozen_string_literal: true

require_relative "lines"

# Compares what was produced with what was processed. Each key has messages numbered from 0. Any thread of any process
# that processes a message records it.
#
#   ledger = Ledger.new(path)
#   ledger.processed("consumer 1", "key 7", 0)
#   ledger.report("key 7" => 12).problems  # => ["key 7: lost 1..11"]
#
# Processing is at least once: an owner (one consumer object) may go back, or take over further back than its
# predecessor came, if it then repeats all of it. No owner may go past a message that is not done.
class Ledger
  # sent: messages produced; processed: of those, with repetitions; duplicates: of those, repetitions; again: how often
  # an owner began to repeat; problems: one sentence each.
  Report = Struct.new(:sent, :processed, :duplicates, :again, :problems, keyword_init: true) do
    def to_s
      "#{sent} messages, #{processed} times processed, #{duplicates} of them again (#{again} times gone back), " \
        "#{problems.size} problems"
    end
  end

  # The records of one key.
  class Story
    attr_reader :duplicates, :again, :problems

    def initialize(key, count)
      @key = key
      @count = count
      @seen = Array.new(count, false)
      @next = 0 # everything below was processed, or is reported as a problem
      @last = {} # {owner => its last number}
      @latest = nil # the owner that processed last
      @duplicates = @again = 0
      @problems = []
    end

    def processed(owner, number)
      return @problems << "#{@key}: #{number} was never produced" unless number.between?(0, @count - 1)

      before = @last[owner]
      jumped = number > @next || (@latest == owner && number > before + 1)
      @problems << "#{@key}: #{owner} did #{number} before #{jumped_from(owner, number)}" if jumped
      repeated(before, number) if @seen[number]
      @seen[number] = true
      @next = [@next, number + 1].max
      @last[owner] = number
      @latest = owner
    end

    def end
      lost = @seen.each_index.reject { |number| @seen[number] }
      runs = lost.slice_when { |offset, following| following > offset + 1 }.map { |run| run.minmax.uniq.join("..") }
      @problems << "#{@key}: lost #{runs.first(5).join(", ")}" if lost.any?
    end

    private

    def jumped_from(owner, number) = number > @next ? @next : @last[owner] + 1

    def repeated(before, number)
      @duplicates += 1
      @again += 1 unless before && number == before + 1
    end
  end

  def initialize(path)
    @lines = Lines.new(path)
  end

  def processed(owner, key, number) = @lines << [owner, key, number]

  # sent: {key => how many messages}
  def report(sent)
    stories = sent.to_h { |key, count| [key, Story.new(key, count)] }
    strange = []
    lines = @lines.to_a # once: others may still write
    lines.each do |owner, key, number|
      story = stories[key]
      story ? story.processed(owner, number) : strange << "#{key}: #{number} was never produced"
    end
    stories.each_value(&:end)
    all = stories.values
    Report.new(sent: sent.values.sum, processed: lines.size, duplicates: all.sum(&:duplicates),
               again: all.sum(&:again), problems: strange + all.flat_map(&:problems))
  end
end
