# frozen_string_literal: true

require "support/scenario"
require "pelton/reporters/errors"

# Debian's Sentry gem gets the failures of a consumer of a real Kafka: each attempt once, as one group, with its place,
# and without the payload.
#
# once: Debian has the gem for its own Ruby

begin
  require "sentry-ruby"
rescue LoadError
  Scenario.needs("no Sentry (Debian: apt-get install ruby-sentry-ruby-core)")
end

Scenario.run do
  Sentry.init do |config|
    config.dsn = "http://key@127.0.0.1:1/1"
    config.transport.transport_class = Sentry::DummyTransport
    config.background_worker_threads = 0 # each event at once
    config.logger = Logger.new(File::NULL)
  end
  group = unique("sentry")
  name = topic
  reader = consumer { raise ArgumentError, "no total" }
  all = app(group: group, on_error: Pelton::Reporters::Errors.new(:sentry)) do
    topic(name, to: reader) do
      retries 1, then: :skip
      backoff 0..0
    end
  end
  all.start
  all.producer.produce_sync(topic: name, payload: "the payload", key: "the key")
  sent = Sentry.get_current_client.transport.events
  eventually(30, -> { "two failures: #{sent.size}" }) { sent.size == 2 && events(all, "message.skipped").any? }
  all.stop

  failures = sent.map(&:to_hash)
  grouped = [["consumer.consume", group, name, "ArgumentError"]]
  equal(grouped, failures.map { |one| one[:fingerprint] }.uniq, "the group")
  equal([{ source: "consumer.consume", group: group, topic: name }], failures.map { |one| one[:tags] }.uniq, "tags")
  places = failures.map { |one| one[:contexts][:pelton].values_at(:partition, :offset, :attempt) }
  equal([[0, 0, 1], [0, 0, 2]], places, "the places")
  equal(2, failures.map { |one| one[:contexts][:pelton][:failure_id] }.uniq.size, "ids")
  thrown = failures.map { |one| one[:exception][:values].map { |value| value.values_at(:type, :value) } }
  equal([[["ArgumentError", "no total"]]], thrown.uniq, "the error")
  check(failures.none? { |one| JSON.generate(one).match?(/the (payload|key)/) }, "no payload and no key")
end
