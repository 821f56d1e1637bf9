# frozen_string_literal: true

require_relative "lines"

# What the members of a group did, in order. The rebalance scenarios check it.
class Trail
  ENDS = %w[revoked shutdown].freeze

  # One line: what happened to which consumer instance of which process.
  Entry = Struct.new(:what, :pid, :instance, :place, :from, :to) do
    def ends? = ENDS.include?(what)
  end

  def initialize(path)
    @lines = Lines.new(path) { |row| Entry.new(*row) }
  end

  # From any process.
  def note(what, instance, partition, first = nil, last = nil)
    @lines << [what, Process.pid, "#{Process.pid}/#{instance}", partition, first, last]
  end

  def entries = @lines.to_a

  # The next offset of each partition: {0 => 120, …}
  def positions
    entries.select { |entry| entry.what == "done" }.group_by(&:place)
           .transform_values { |done| done.map(&:to).max + 1 }
  end

  # All violations, one sentence each. ends: {partition => messages produced}; killed: process ids.
  def problems(ends, killed: [])
    all = entries
    lives(all, killed) + ends.flat_map { |partition, count| partition_problems(all, partition, count, killed) }
  end

  private

  # Each instance begins with assigned, ends once, and has no entry after that.
  def lives(all, killed)
    all.group_by(&:instance).flat_map do |name, life|
      words = life.map(&:what)
      ended = words.count { |word| ENDS.include?(word) }
      [
        ("#{name} began with #{words.first}" unless words.first == "assigned" && words.count("assigned") == 1),
        ("#{name} ended #{ended} times" unless ended == 1 || (ended.zero? && killed.include?(life.first.pid))),
        ("#{name} did #{words.last} after its end" if ended.positive? && !ENDS.include?(words.last))
      ].compact
    end
  end

  def partition_problems(all, partition, count, killed)
    found = []
    position = 0
    owner = nil # the last entry of the instance that works on it
    all.select { |entry| entry.place == partition }.each do |entry|
      changed = owner && owner.instance != entry.instance
      if changed && entry.what == "begin" && !owner.ends? && !killed.include?(owner.pid)
        found << "#{entry.instance} begins #{partition} while #{owner.instance} has not ended"
      end
      if entry.what == "begin"
        again = changed && killed.include?(owner.pid)
        found << "#{partition}: #{entry.instance} skips from #{position} to #{entry.from}" if entry.from > position
        if entry.from < position && !again
          found << "#{partition}: #{entry.instance} does #{entry.from} again, #{position} is next"
        end
        position = entry.from
      end
      position = entry.to + 1 if entry.what == "done"
      owner = entry unless entry.what == "assigned"
    end
    found << "#{partition}: ended at #{position} of #{count}" unless position == count
    found
  end
end
