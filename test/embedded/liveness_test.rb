# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/probe"

# A probe of a server on the embedded cluster. (The real broker's twin: test/integration/operations.rb.)
class EmbeddedLivenessTest < Minitest::Test
  include EmbeddedApp
  include Probe

  def started(name, reader)
    app = app(group: "shared", kafka: OFTEN) { [name, "missing"].each { |topic_name| topic(topic_name, to: reader) } }
    app.config.liveness.port = 0
    app.start
    app
  end

  # No alarm for: a missing topic, a rebalance, a long job, an unreachable broker, a stop that waits for a job. Each
  # look at the awaited state is a probe.
  def test_no_false_alarm
    name = topic(2)
    gate = Thread::Queue.new
    seen = @seen
    reader = consumer { (seen << partition) && gate.pop }
    first = started(name, reader)
    port = first.server.liveness.port
    answers = []
    well = lambda do |what, &condition|
      eventually(20, what) { (answers << probe(port, "/live").status) && condition.call }
    end
    well.call("both partitions") { first.assignments == { name => [0, 1] } }
    second = started(name, reader)
    well.call("a partition each") { [first, second].all? { |app| app.assignments.fetch(name, []).size == 1 } }
    mine = first.assignments[name].first
    produce(second, name, %w[a], partition: mine)
    well.call("a long job") { @seen.size == 1 }
    @cluster.broker_down
    well.call("the loss of the broker") { happened("error.occurred").any? { |event| event[:source] == "kafka" } }
    @cluster.broker_up
    stopping = Pelton::Threads.start("test") { @stopped = first.stop }
    well.call("a stop that waits") { first.server.status == :stopping }
    assert_equal 500, probe(port, "/ready").status
    gate.close
    stopping.join
    assert_equal [[200], true], [answers.uniq, refused?(port)]
    assert_empty happened("app.unhealthy")
  end
end
