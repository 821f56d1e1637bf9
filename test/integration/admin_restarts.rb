# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# An administrator asks for offsets, lag and a group's state while the broker is killed and frozen, and after it came
# back: the process lives, each question ends in time, and answers are right again.
# PELTON_RESTARTS=500: as many kills and restarts.

Scenario.run do
  # Little to load at each start.
  few = %w[offsets.topic transaction.state.log share.coordinator.state.topic].to_h { ["#{_1}.num.partitions", "1"] }
  broker = TestBroker.start(settings: few)
  self.bootstrap = broker.bootstrap
  name = unique("orders")
  group = unique("billing")
  broker.create_topics(name => 1)
  admin = app(group: group).admin
  app.producer.produce_sync(topic: name, payload: "x")
  admin.alter_group_offsets(group, { [name, 0] => 0 })
  # For each answer. On a busy machine, this is shorter than connecting takes.
  seconds = 1
  # {kind of question => [question, right answer]}
  questions = {
    offsets: [-> { admin.offsets({ [name, 0] => :end }, timeout: seconds) }, { [name, 0] => 1 }],
    group_offsets: [-> { admin.group_offsets(group, timeout: seconds) }, { [name, 0] => 0 }],
    lag: [-> { admin.lag(group, timeout: seconds) }, { [name, 0] => 1 }],
    group: [-> { admin.group(group, timeout: seconds).state }, :empty]
  }
  wrong = Thread::Queue.new # e.g. [:lag, {}]: a question and its answer
  ask = lambda do |kind|
    question, right = questions.fetch(kind)
    answer = question.call
    wrong << [kind, answer] if answer != right
    :right
  rescue Pelton::KafkaError
    :failed
  end
  # Each kind of question on a thread of its own, as long as the block runs.
  poll = lambda do |&work|
    outcomes = Thread::Queue.new
    stop = false
    threads = questions.each_key.map do |kind|
      Thread.new do
        Thread.current.report_on_exception = true
        until stop
          outcomes << [kind, ask.(kind)]
          IO.select(nil, nil, nil, 0.02) # some fail at once
        end
      end
    end
    work.call(outcomes)
  ensure
    stop = true
    threads.each(&:join)
  end
  # Waits until each kind of question had this outcome.
  all = lambda do |outcomes, wanted|
    outcomes.clear
    missing = questions.keys
    eventually(150, -> { "#{wanted} of #{missing}" }) do
      until outcomes.empty?
        kind, outcome = outcomes.pop
        missing -= [kind] if outcome == wanted
      end
      missing.empty?
    end
    check(wrong.empty?, "a wrong answer: #{wrong.pop.inspect unless wrong.empty?}")
  end

  poll.() do |outcomes|
    all.(outcomes, :right)
    Integer(ENV.fetch("PELTON_RESTARTS", "2")).times do |number|
      broker.kill(:KILL)
      all.(outcomes, :failed)
      broker.restart
      all.(outcomes, :right)
      puts "#{number + 1} restarts" if ((number + 1) % 10).zero?
    end
    broker.kill(:STOP)
    all.(outcomes, :failed)
    broker.kill(:CONT)
    all.(outcomes, :right)
  end

  # An administrator whose client has not found the coordinator yet. What it gave up meanwhile is dropped: a late answer
  # reaches no other question, and a change does not happen later.
  other = app(group: group).admin
  broker.kill(:STOP)
  late = lambda do |&question|
    raises(Pelton::KafkaError, /_TIMED_OUT/, &question)
  end
  5.times { late.() { other.group_offsets(group, timeout: 0.2) } }
  3.times { late.() { other.alter_group_offsets(group, { [name, 0] => 1 }, timeout: 0.2) } }
  broker.kill(:CONT)
  equal({}, other.group_offsets("#{group}-2", timeout: 120), "the offsets of another group")
  3.times { equal({ [name, 0] => 0 }, other.group_offsets(group, timeout: 120), "the offsets after a late change") }
  other.alter_group_offsets(group, { [name, 0] => 0 }, timeout: 120)

  seconds = 30
  equal(questions.transform_values { :right }, questions.to_h { |kind, _| [kind, ask.(kind)] }, "at the end")
ensure
  broker&.stop
end
