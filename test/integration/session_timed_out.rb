# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/lossy_proxy"

# A broker is frozen, then killed, for longer than a session of groups with one member each (protocol `classic`). It may
# still have the members afterwards. Each client is its member again, or ends it with LeaveGroup. librdkafka alone joins
# as a new member, and the group waits for the old one until that one's session is over.

SESSION = { "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 2000,
            "reconnect.backoff.ms" => 50, "reconnect.backoff.max.ms" => 250 }.freeze
UNANSWERED = /Timed out HeartbeatRequest/

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  proxy = LossyProxy.new(broker.port)
  consumed = Hash.new { |hash, name| hash[name] = [] } # {topic => payloads}
  lock = Mutex.new
  # {topic => [app, group]}
  servers = Array.new(6) do
    name = topic
    group = unique("group")
    reader = consumer { lock.synchronize { consumed[name].concat(messages.map(&:raw_payload)) } }
    kafka = { **SESSION, "bootstrap.servers" => "127.0.0.1:#{proxy.port}" }
    [name, [app(group: group, kafka: kafka) { topic(name, to: reader) }.tap(&:start), group]]
  end.to_h
  producer = app.producer
  admin = app.admin
  all_consume = lambda do |payload|
    took = seconds do
      servers.each_key { |name| producer.produce_async(topic: name, payload: payload) }
      eventually(30, -> { "each consumes #{payload}: #{consumed}" }) do
        lock.synchronize { servers.keys.all? { |name| consumed[name].include?(payload) } }
      end
    end
    puts "#{payload}: consumed after #{took.round(1)} s"
  end
  members = -> { servers.transform_values { |_, group| admin.group(group).members.map(&:id) } }
  unanswered = lambda do
    servers.values.map { |app, _| events(app, "kafka.log").count { |event| event[:message].match?(UNANSWERED) } }
  end
  losses = -> { servers.values.map { |app, _| events(app, "partition.revoked").count { |event| event[:lost] } } }
  away = lambda do |what, signal, back|
    before = members.call
    lost = losses.call
    left = proxy.requests[LossyProxy::LEAVE_GROUP]
    broker.kill(signal)
    eventually(30, "all partitions to be lost") { losses.call.zip(lost).all? { |now, then_| now > then_ } }
    eventually(30, "unanswered heartbeats") { signal == :KILL || unanswered.call.all?(&:positive?) }
    back.call
    all_consume.(what)
    after = members.call
    same = after.count { |name, ids| ids == before[name] }
    left = proxy.requests[LossyProxy::LEAVE_GROUP] - left
    puts "#{what}: #{same} of #{servers.size} clients are their member again, and #{left} LeaveGroup"
    check(same + left >= servers.size, "#{what}: a former member may be left: #{before} #{after}")
  end
  all_consume.("at first")
  away.("frozen", :STOP, -> { broker.kill(:CONT) })
  away.("killed", :KILL, -> { broker.restart })
ensure
  proxy&.close
  broker&.stop
end
