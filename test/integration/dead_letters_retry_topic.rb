# frozen_string_literal: true

require "support/scenario"

# A letter that two groups have each, redriven to the retry topic of one: only that group gets the message again, at
# once, with all its retries; if it fails there, its letter names the first place.

Scenario.run do
  input = topic(partitions: 2)
  dead = topic
  [5, 7].each { |delay| topic(name: "#{input}.retry.#{delay}") }
  healed = false
  seen = Thread::Queue.new
  groups = Array.new(2) { unique("group") }
  servers = groups.map do |group|
    work = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << [group, topic.delete_prefix(input), attempt, message.raw_payload]
        raise IOError, "not yet" if !healed || message.key == "never"
      end
    end
    app(group: group) do
      topic input, to: work do
        on_failure ->(failure) { healed && failure.topic.end_with?(".5") ? :retry : :dead_letter }
        retry_in 5, 7
        dead_letters dead
      end
    end
  end
  servers.first.producer.produce_many_sync([{ topic: input, key: "k", payload: "one", partition: 1 },
                                            { topic: input, key: "never", payload: "two", partition: 1 }])
  servers.each(&:start)
  eventually(60, "four letters") { servers.sum { |server| events(server, "message.dead_lettered").size } == 4 }
  equal(groups.product(%w[one two]).sort, take(seen, 4).map { |group, _, _, payload| [group, payload] }.sort, "first")

  healed = true
  letters = app.dead_letters(dead)
  equal([2, {}, nil], letters.redrive(retry_topic: 5, group: groups.first).to_a, "redriven")
  equal({ groups.first => 2 }, letters.count_by(:group, status: :redriven), "of one group")
  eventually(60, "the letter of the second death") do
    servers.sum { |server| events(server, "message.dead_lettered").size } == 5
  end
  equal([[groups.first, ".retry.5", 1, "one"], [groups.first, ".retry.5", 1, "two"],
         [groups.first, ".retry.7", 2, "two"]], take(seen, 3), "attempts in the retry topics")
  again = letters.each(group: groups.first).first.origin
  equal([input, 1, 1, 2, 1], [again.topic, again.partition, again.offset, again.attempts, again.redrives], "origin")
  equal([true, true], servers.map(&:stop), "stops")
  equal(0, seen.size, "messages of the other group")
end
