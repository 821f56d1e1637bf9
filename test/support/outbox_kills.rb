# frozen_string_literal: true

require_relative "outbox_kit"
require_relative "scenario"

# Kills writers and relays of an outbox at random moments, and checks what arrived.
module OutboxKills
  # What is known at the end: messages in the topic; of these, copies of earlier ones; problems, one sentence each.
  Report = Struct.new(:messages, :duplicates, :problems)

  PROGRAM = File.expand_path("outbox_program.rb", __dir__)
  COUNTERS = 12
  BATCH = 50

  # A counter of the program.
  class Counter < ActiveRecord::Base
    self.table_name = "outbox_counters"
  end

  module_function

  # Makes the tables.
  #: (String) -> void
  def prepare(url)
    OutboxKit.connect(url)
    OutboxKit.migrate
    ActiveRecord::Migration.suppress_messages do
      ActiveRecord::Base.connection.create_table(:outbox_counters) do |t|
        t.string :name, null: false
        t.integer :count, null: false, default: 0
      end
    end
    COUNTERS.times { |number| Counter.create!(name: "counter #{number}") }
  end

  # wanted: {"counter 1" => 812}: the numbers from 1 on were committed. messages: [key, id, number] of each message, in
  # the order of its partition. A relay that took over may go back, but then it repeats all that follows.
  #: (Hash[String, Integer], Array[[String, String, Integer]]) -> Report
  def report(wanted, messages)
    problems = []
    copies = 0
    messages.group_by(&:first).each do |key, list|
      seen = {}
      last = 0
      list.each do |_, id, number|
        copies += 1 if seen[number]
        problems << "#{key}: #{number} has the ids #{id} and #{seen[number]}" if seen[number] && seen[number] != id
        problems << "#{key}: #{number} after #{last}" if number > last + 1
        seen[number] = id
        last = number
      end
      extra = seen.keys.reject { |number| number.between?(1, wanted.fetch(key, 0)) }
      problems << "#{key}: #{extra.first(3)} were never committed" if extra.any?
    end
    wanted.each do |key, count|
      lost = (1..count).to_a - messages.filter_map { |name, _, number| number if name == key }
      problems << "#{key}: lost #{lost.first(5)}" if lost.any?
    end
    Report.new(messages.size, copies, problems)
  end

  # The block of a scenario. poll: seconds, of the relays. cut: SQL that ends the database connection of the relay that
  # works.
  #: (String, kills: Integer, poll: Numeric, ?cut: String?) -> Proc
  def scenario(url, kills:, poll:, cut: nil)
    lambda do
      seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
      random = Random.new(seed)
      puts "seed #{seed}"
      partitions = 3
      name = topic(partitions: partitions)
      OutboxKills.prepare(url)
      env = { "OUTBOX_DATABASE" => url, "OUTBOX_TOPIC" => name }
      rows = -> { Pelton::Outbox::Row.count }
      committed = -> { Counter.sum(:count) }

      start = {
        relay: -> { pelton("outbox", "-r", PROGRAM, "--batch", BATCH.to_s, "--poll", poll.to_s, env: env) },
        writer: -> { ruby(PROGRAM, "4", env: env) }
      }
      running = [*Array.new(2) { [:relay, start[:relay].()] }, [:writer, start[:writer].()]]
      killed = Hash.new(0)
      kills.times do
        # Both sides did something since the last kill.
        written = committed.()
        eventually(60, "the writer goes on") { committed.() > written + 5 }
        newest = Pelton::Outbox::Row.maximum(:id).to_i
        eventually(60, -> { "rows up to #{newest} are sent\n#{running.map { |_, program| program.output }.join}" }) do
          (Pelton::Outbox::Row.minimum(:id) || (newest + 1)) > newest
        end
        work(random.rand * 0.3)
        if cut && random.rand(4).zero?
          killed[:connection] += 1
          ActiveRecord::Base.connection.execute(cut)
          next
        end
        index = random.rand(running.size)
        kind, child = running[index]
        child.kill(:KILL)
        exit_code(child)
        forget(child)
        killed[kind] += 1
        running[index] = [kind, start[kind].()]
      end

      writer = running.find { |kind, _| kind == :writer }.last
      writer.kill(:KILL)
      exit_code(writer)
      eventually(120, lambda {
                        "#{rows.()} rows are left\n#{running.map do |_, program|
                                                       program.output
                                                     end.join}"
                      }) { rows.().zero? }
      relay = nil
      eventually(60, "a relay that works") do
        relay = running.map(&:last).find { |child| child.output.include?("is relayed by this process") }
      end
      relay.kill(:TERM)
      equal(0, exit_code(relay, 60), "exit code of pelton outbox\n#{relay.output}")

      wanted = Counter.pluck(:name, :count).to_h
      found = report = nil
      reader = app
      # A transaction ends for readers after it ended for the relay.
      eventually(60, -> { "all messages; #{report.problems.first(10)}" }) do
        found = reader.each(name).map do |message|
          [message.raw_key, message.raw_headers.fetch("pelton.id"), Integer(message.raw_payload)]
        end
        report = OutboxKills.report(wanted, found)
        report.problems.empty?
      end
      puts "#{killed.map do |kind, count|
                "#{count} kills of a #{kind}"
              end.join(", ")}: #{wanted.values.sum} committed, " \
           "#{report.messages} arrived, #{report.duplicates} of them twice"
      check(report.duplicates <= killed.values_at(:relay, :connection).sum * BATCH, "#{report.duplicates} duplicates")

      # The same check sees a loss (also of a message that arrived twice), a disorder and a rolled back message.
      key, id, number = found.last
      never = ["counter 0", "x", wanted["counter 0"] + 1]
      [found - [found.last], [*found, [key, id, number + 2]], [*found, never]].each do |wrong|
        check(OutboxKills.report(wanted, wrong).problems.any?, "the check sees nothing")
      end
    end
  end
end
