# frozen_string_literal: true

require "support/ledger"

# Checks the result of a run of bin/chaos: the topic, the messages that Kafka confirmed, and those that were processed.
class ChaosCheck
  # log: {partition => [[key, number, offset], …]}, as the topic has it.
  def initialize(log)
    @log = log
    @places = Hash.new { |all, key| all[key] = {} } # {key => {number => its place among the key's}}
    @problems = []
    log.each_value do |messages|
      messages.each { |key, number, _| put(key, number) }
    end
  end

  attr_reader :problems

  def messages = @log.sum { |_, messages| messages.size }

  # Each confirmed message is in the topic.
  def confirmed(rows)
    lost = rows.reject { |key, number| @places.key?(key) && @places[key].key?(number) }
    complain("confirmed, but not in the topic", lost)
  end

  # Each message was processed, in the order of its key; no job of a key went past an unfinished message. Returns the
  # number of repetitions. rows: as a member writes them.
  def done(rows)
    stories = @places.to_h { |key, places| [key, Ledger::Story.new(key, places.size)] }
    rows.each do |pid, instance, _, _, key, number|
      place = @places.key?(key) && @places[key][number]
      next stories[key].processed("#{pid}/#{instance}", place) if place

      complain("done, but not in the topic", [[key, number]])
    end
    stories.each_value(&:end)
    @problems.concat(stories.each_value.flat_map(&:problems))
    stories.each_value.sum(&:duplicates)
  end

  # Each message was copied once, in the order of its partition. copies: as the log.
  def copied(copies)
    @log.each do |partition, messages|
      wanted, found = [messages, copies.fetch(partition, [])].map { |all| all.map { |key, number, _| [key, number] } }
      next if wanted == found

      complain("partition #{partition}: lost", wanted - found)
      complain("partition #{partition}: more than once", found.tally.select { |_, times| times > 1 }.keys)
      complain("partition #{partition}: never produced", found - wanted)
      @problems << "partition #{partition}: another order" if found.uniq != (wanted & found)
    end
  end

  private

  def put(key, number)
    places = @places[key]
    return complain("more than once in the topic", [[key, number]]) if places.key?(number)

    last = places.keys.last
    complain("in the topic behind #{last}", [[key, number]]) if last && last > number
    places[number] = places.size
  end

  def complain(what, messages)
    return if messages.empty?

    @problems << "#{what}: #{messages.size}, #{messages.first(3).map { |key, number| "#{key}/#{number}" }.join(", ")}"
  end
end
