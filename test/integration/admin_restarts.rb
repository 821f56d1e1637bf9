# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# An administrator asks for offsets, lag and a group's state while the broker is killed and frozen, and after it came
# back: the process lives, each question ends in time, and answers are right again.

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  name = unique("orders")
  group = unique("billing")
  broker.create_topics(name => 1)
  admin = app(group: group).admin
  app.producer.produce_sync(topic: name, payload: "x", timeout: 20)
  admin.alter_group_offsets(group, { [name, 0] => 0 })
  questions = {
    offsets: -> { admin.offsets({ [name, 0] => :end }, timeout: 1) == { [name, 0] => 1 } },
    group_offsets: -> { admin.group_offsets(group, timeout: 1) == { [name, 0] => 0 } },
    lag: -> { admin.lag(group, timeout: 1) == { [name, 0] => 1 } },
    group: -> { admin.group(group, timeout: 1).state == :empty }
  }
  ask = lambda do |question|
    question.call ? :right : :wrong
  rescue Pelton::KafkaError
    :failed
  end
  # Each kind of question on a thread of its own, as long as the block runs.
  poll = lambda do |&work|
    outcomes = Thread::Queue.new
    stop = false
    threads = questions.map do |kind, question|
      Thread.new do
        Thread.current.report_on_exception = true
        until stop
          outcomes << [kind, ask.(question)]
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
    eventually(60, -> { "#{wanted} of #{missing}" }) do
      until outcomes.empty?
        kind, outcome = outcomes.pop
        missing -= [kind] if outcome == wanted
      end
      missing.empty?
    end
  end

  poll.() do |outcomes|
    all.(outcomes, :right)
    2.times do
      broker.kill(:KILL)
      all.(outcomes, :failed)
      broker.restart
      all.(outcomes, :right)
    end
    broker.kill(:STOP)
    all.(outcomes, :failed)
    broker.kill(:CONT)
    all.(outcomes, :right)
  end
  equal(questions.transform_values { :right }, questions.transform_values { |question| ask.(question) }, "at the end")
ensure
  broker&.stop
end
