# frozen_string_literal: true

# once: this is about what Kafka refuses, whatever the Ruby

require "support/scenario"
require "support/rails_app"

# A message in the outbox that the broker refuses stays in the table. Later ones with its key wait for it, and all
# others go on, also those of the same request. On SQLite.

Scenario.needs(RailsApp.missing)

require "support/outbox_kit"

Scenario.run do
  name = topic(partitions: 1, settings: { "max.message.bytes" => "2000" })
  plain = topic(partitions: 1)
  folder = Dir.mktmpdir
  at_exit { FileUtils.rm_rf(folder) }
  OutboxKit.connect({ adapter: "sqlite3", database: "#{folder}/db.sqlite3", timeout: 20_000 })
  OutboxKit.migrate
  rows = -> { Pelton::Outbox::Row.order(:id).pluck(:payload).map { |payload| payload[0, 9] } }

  app = self.app(group: unique("group")) { topic(plain, to: Class.new(Pelton::Consumer) { def consume = nil }) }
  Pelton.app = app
  # A transaction ends for readers after it ended for the relay.
  arrived = lambda do |topic, count|
    found = nil
    eventually(60, -> { "#{count} messages, not #{found}" }) do
      (found = app.each(topic).map { |message| message.raw_payload[0, 9] }).size >= count
    end
    found
  end
  ActiveRecord::Base.transaction do
    Pelton::Outbox.produce(topic: name, key: "k", payload: "before")
    Pelton::Outbox.produce(topic: name, key: "k", payload: "too large #{Random.bytes(5000)}")
    3.times { |i| Pelton::Outbox.produce(topic: name, key: "k", payload: "behind #{i}") }
    3.times { |i| Pelton::Outbox.produce(topic: name, key: "other", payload: "other #{i}") }
    Pelton::Outbox.produce(topic: plain, key: "k", payload: "elsewhere")
  end
  Pelton::Outbox.relay_with_server(app: app, poll: 0.1)
  app.start

  # --- what is sent, and what waits ---

  waiting = ["too large", "behind 0", "behind 1", "behind 2"]
  eventually(60, -> { "only these rows are left: #{rows.()}" }) { rows.() == waiting }
  equal(["before", "other 0", "other 1", "other 2"], arrived.(name, 4), "what arrived")
  equal(["elsewhere"], arrived.(plain, 1), "what arrived in the other topic")
  refused = Pelton::Outbox.refused
  equal([[name, "k"]], refused.map { |row| row.values_at(:topic, :key) }, "refused rows")
  check(refused.first[:error].include?("MSG_SIZE_TOO_LARGE"), "the error of the row: #{refused.first[:error]}")
  eventually(30, "a second attempt") { events(app, "outbox.refused").map { |event| event[:attempts] }.include?(2) }
  equal(waiting, rows.(), "rows after a second attempt")

  # --- the rest of its key follows, once it is deleted ---

  check(Pelton::Outbox.delete_refused(refused.first[:id]), "the row is deleted")
  eventually(60, -> { "an empty outbox: #{rows.()}" }) { rows.().empty? }
  found = arrived.(name, 7)
  equal(["behind 0", "behind 1", "behind 2"], found.last(3), "what follows")
  equal(7, found.size, "messages in all")
  check(app.stop, "the stop")
  ActiveRecord::Base.remove_connection
end
