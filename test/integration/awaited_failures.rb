# frozen_string_literal: true

require_relative "../support/scenario"
require "support/exactly_once"

# A failure that a call raises is no event, also if it comes before the wait. A batch with a message that librdkafka
# refuses at once fails its transaction. Twin of test/embedded/awaited_failures_test.rb.

Scenario.run do
  name = topic
  plain = app
  transactional = app(kafka: { "transactional.id" => unique("id") })
  bad = { topic: name, payload: "never", partition: 99 }
  good = { topic: name, payload: "good", partition: 0 }
  calls = [->(made) { made.produce_sync(**bad) }, ->(made) { made.produce_many_sync([bad] * 2) },
           ->(made) { made.buffer(**bad).flush_buffer_sync }]

  [plain, transactional].each do |app|
    made = app.producer
    2.times do # before and after it knows the partitions
      calls.each { |sends| raises(Pelton::DeliveryError, %r{#{name}/99}) { sends.call(made) } }
      made.produce_sync(**good)
    end
    equal([{}, true], [made.failures, made.flush(timeout: 20)], "failures that were raised")
  end

  # --- a batch in a transaction ---
  raises(Pelton::DeliveryError, /99/) do
    transactional.producer.transaction { |tx| tx.produce_many_async([{ **good, payload: "never" }, bad]) }
  end
  transactional.producer.produce_sync(**good, payload: "last")
  see = -> { ExactlyOnce.read(bootstrap, name, 1, "read_committed").values.flatten }
  eventually(20, -> { "committed: #{see.call}" }) { see.call == [*["good"] * 4, "last"] }

  # --- only the batch in the block was an event: when it failed, nothing waited for it ---
  eventually(20) { events(transactional, "message.delivery_failed").any? }
  equal([], events(plain, "message.delivery_failed"), "events of the producer without transactions")
  equal(1, events(transactional, "message.delivery_failed").size, "events of the transactional producer")
end
