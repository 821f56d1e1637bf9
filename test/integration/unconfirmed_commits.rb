# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/lossy_proxy"

# Kafka carries out the commit of a message's last attempt, but its answer does not arrive in time, nor the answer to
# the question what became of it. Whatever the route does after the last attempt: the result was there twice, or the
# next message was skipped without a call.

Scenario.run do
  proxy = LossyProxy.new(Integer(bootstrap[/\d+\z/]))
  %i[dead_letters retry_topic skip on_failure].each do |kind|
    input = topic
    out = topic
    dead = topic
    app.admin.create_topic("#{input}.retry.2", partitions: 1) if kind == :retry_topic
    calls = []
    errors = []
    copying = consumer do
      transaction do |tx|
        messages.each { |message| tx.produce_sync(topic: out, payload: message.raw_payload) }
        mark_as_consumed(messages.last)
        calls << [messages.map(&:raw_payload), attempt]
        proxy.hold(LossyProxy::END_TXN, LossyProxy::INIT_PRODUCER_ID) if calls.size == 1
      end
    rescue Pelton::Error => e
      errors << (e.is_a?(Pelton::TransactionError) ? e.reason : e.class)
      proxy.release
      raise
    end
    id = unique("unconfirmed")
    server = app(group: id, transaction_timeout: 2,
                 kafka: { "bootstrap.servers" => "127.0.0.1:#{proxy.port}" }) do
      topic(input, to: copying) do
        transactional id
        case kind
        when :dead_letters
          retries 0
          dead_letters dead
        when :retry_topic then retry_in 2
        when :skip then retries 0, then: :skip
        when :on_failure then on_failure ->(_failure) { :skip }
        end
      end
    end
    server.start
    app.producer.produce_sync(topic: input, payload: "a")
    eventually(60, "#{kind}: an error") { errors.any? }
    app.producer.produce_sync(topic: input, payload: "b")
    eventually(60, "#{kind}: the second result") { app.each(out).map(&:raw_payload).include?("b") }
    check(server.stop, "#{kind}: nothing is left undone")
    equal(%w[a b], app.each(out).map(&:raw_payload), "#{kind}: results, after the errors #{errors}")
    equal([], app.each(dead).to_a, "#{kind}: dead letters")
    equal([:unknown, :committed], errors, "#{kind}: errors")
    equal([1], calls.map(&:last).uniq, "#{kind}: no attempt was used up")
  end
  proxy.close
end
