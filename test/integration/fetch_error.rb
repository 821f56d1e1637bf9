# frozen_string_literal: true

# once: this is about librdkafka and Kafka, whatever the Ruby

require "support/scenario"

# Nothing is left out, and nothing begins anew, when a fetch is refused for a while and then a member joins whose share
# is another's: cooperative, and by the protocol `consumer` (KIP-848).

class FetchError < Scenario
  SETTINGS = { "authorizer.class.name" => "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
               "allow.everyone.if.no.acl.found" => true }.freeze

  # From here on partitions of the topic may be read, or not.
  def readable(topic, yes)
    rule = { principal: "User:*", operation: :read, topic: topic, permission: :deny }
    yes ? @admin.delete_acls(**rule) : @admin.create_acl(**rule)
    # Done is what the controller says; the broker's metadata follows.
    eventually(20, "the rule's #{yes ? "end" : "beginning"}") { @admin.acls(**rule).empty? == yes }
  end

  # Polls these members until it is enough. @seen: offsets by partition; @refused: partitions that told of an error.
  def follow(members, what)
    eventually(60, -> { "#{what}: #{@seen}, refused #{@refused}, #{@owned}" }) do
      members.each { |member| serve(member) }
      yield
    end
  end

  def serve(member)
    kind, *facts = member.poll(0.05)
    case kind
    when :batch then take_batch(member, *facts)
    when :assigned then @owned[member] += facts.first.size
    when :revoked
      @owned[member] -= facts[1].size
      member.revoked(facts.first)
    when :error then @refused |= [facts[2]] if facts.first.name == :TOPIC_AUTHORIZATION_FAILED && facts[2]
    end
  end

  def take_batch(member, batch)
    batch.each { |message| (@seen[batch.partition] ||= []) << message.offset }
    member.mark(batch.topic, batch.partition, batch.last_offset + 1)
    batch.release
  end

  def begin_anew
    @seen = {}
    @refused = []
    @owned = Hash.new(0).compare_by_identity
  end

  def send_to_both(topic, count)
    rows = [0, 1].flat_map { |partition| Array.new(count) { { topic: topic, partition: partition, payload: "x" } } }
    @writer.produce_many_sync(rows)
  end

  def refused_and_shared(kafka)
    begin_anew
    name = topic(partitions: 2)
    @admin.create_acl(principal: "User:*", operation: :all, topic: name)
    send_to_both(name, 10)
    group = unique("group")
    join = lambda do
      Pelton::Subscription.new(@app.config, group_id: group, kafka: kafka).tap { |member| member.subscribe([name]) }
    end
    first = join.call
    follow([first], "the first member") { @seen.values.map(&:size) == [10, 10] }
    first.commit(20)
    readable(name, false)
    follow([first], "both are refused") { @refused.size == 2 }
    readable(name, true)
    second = join.call
    follow([first, second], "both share") { @owned.values_at(first, second) == [1, 1] }
    send_to_both(name, 3)
    follow([first, second], "what came since") { @seen.values.all? { |offsets| offsets.last == 12 } }
    2.times { |partition| equal([*0..12], @seen[partition], "offsets of partition #{partition}, #{kafka}") }
    [first, second].each { |member| equal(true, member.close(20), "a close") }
  end

  def all
    broker = TestBroker.start(settings: SETTINGS)
    self.bootstrap = broker.bootstrap
    @app = app
    @admin = @app.admin
    @writer = @app.producer
    [{ "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 500 },
     { "group.protocol" => "consumer" }].each { |kafka| refused_and_shared(kafka) }
  ensure
    broker&.stop
  end
end

FetchError.run { all }
