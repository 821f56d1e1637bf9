# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/lossy_proxy"

# Kafka does not answer a step of a transaction in time: the offsets, or the offsets, the abort and the next begin. The
# message has one attempt, and became a dead letter, or was skipped.

CASES = [
  [:dead_letters, :consume, [LossyProxy::TXN_OFFSET_COMMIT], %w[offsets]],
  [:skip, :process, [LossyProxy::TXN_OFFSET_COMMIT, LossyProxy::END_TXN, LossyProxy::INIT_PRODUCER_ID],
   %w[offsets begin]]
].freeze

Scenario.run do
  proxy = LossyProxy.new(Integer(bootstrap[/\d+\z/]))
  CASES.each do |kind, method, keys, steps|
    input = topic
    out = topic
    dead = topic
    calls = []
    errors = []
    copying = Class.new(Pelton::Consumer) do
      define_method(method) do |*|
        transaction do |tx|
          messages.each do |message|
            tx.produce_sync(topic: out, payload: message.raw_payload)
            mark_as_consumed(message)
          end
          calls << attempt
          proxy.hold(*keys) if errors.empty?
        end
      rescue Pelton::Error => e
        errors << (e.is_a?(Pelton::WaitTimeout) ? e.operation : e.inspect)
        proxy.release if errors.size == steps.size
        raise
      end
    end
    id = unique("unanswered")
    server = app(group: id, transaction_timeout: 2,
                 kafka: { "bootstrap.servers" => "127.0.0.1:#{proxy.port}" }) do
      topic(input, to: copying) do
        transactional id
        kind == :skip ? retries(0, then: :skip) : dead_letters(dead, retries: 0)
      end
    end
    server.start
    app.producer.produce_sync(topic: input, payload: "a")
    eventually(120, "#{kind}: the first result") { app.each(out).any? }
    app.producer.produce_sync(topic: input, payload: "b")
    eventually(120, "#{kind}: the second result") { app.each(out).map(&:raw_payload).include?("b") }
    check(server.stop, "#{kind}: nothing is left undone")
    equal(%w[a b], app.each(out).map(&:raw_payload), "#{kind}: results, after the errors #{errors}")
    equal([], app.each(dead).to_a, "#{kind}: dead letters")
    expected = steps.map { |step| "#{step} of the transaction" }
    equal(expected, errors.first(steps.size), "#{kind}: errors")
    # On a busy machine, Kafka needs more than the two seconds once more.
    check(errors.all?(/\A\w+ of the transaction\z/), "#{kind}: errors: #{errors}")
    equal([1], calls.uniq, "#{kind}: no attempt was used up")
    retrying = events(server, "consumer.retrying")
    check(retrying.all? { |event| event[:delay].positive? }, "#{kind}: a pause before each retry")
  end
  proxy.close
end
