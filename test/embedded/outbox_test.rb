# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/sqlite_tables"

# The outbox from the table to Kafka, on SQLite and the embedded cluster. test/integration/outbox.rb is its twin.
class EmbeddedOutboxTest < Minitest::Test
  include EmbeddedApp
  include SqliteTables

  def setup
    super
    open_tables
    @before = Pelton.app
    @topic = topic
  end

  def teardown
    super
    return unless @folder

    Pelton.app = @before
    close_tables
  end

  # An app whose server relays.
  def relaying(**settings)
    consumer = self.consumer { nil }
    other = topic
    made = app(**settings) { topic other, to: consumer }
    Pelton::Outbox.relay_with_server(app: made, poll: 0.05)
    Pelton.app = made
  end

  def write(**message)
    ActiveRecord::Base.transaction { Pelton::Outbox.produce(topic: @topic, key: "k", **message) }
  end

  def arrived(topic = @topic) = @apps.first.each(topic).map { |message| [message.raw_key, message.raw_payload] }
  def rows = Pelton::Outbox::Row.count
  def await_empty = eventually(30, -> { "an empty outbox: #{rows} rows" }) { rows.zero? }

  def events(name)
    all = Array.new(@events.size) { @events.pop }
    all.each { |event| @events << event }.select { |event| event.first == name }
  end

  def test_the_server_sends_what_was_written_before_and_after_its_start
    app = relaying
    write(payload: "1", headers: { "trace" => "42" })
    app.start
    await_empty
    ActiveRecord::Base.transaction do
      write(payload: "lost")
      raise ActiveRecord::Rollback
    end
    write(payload: "2")
    await_empty
    assert_equal [%w[k 1], %w[k 2]], arrived
    headers = app.each(@topic).first.raw_headers
    assert_equal ["42", 36], [headers["trace"], headers["pelton.id"].size]
    assert app.stop
  end

  def test_one_of_two_processes_relays_and_the_other_takes_over
    first, second = Array.new(2) { relaying.tap(&:start) }
    write(payload: "1")
    await_empty
    assert_equal 1, events("outbox.relaying").size
    assert first.stop
    assert second.stop
    ends = events("outbox.released").size
    assert_equal events("outbox.relaying").size, ends
    second.start
    write(payload: "2")
    await_empty
    assert_equal [%w[k 1], %w[k 2]], arrived
  end

  # Rails takes them when it reloads code. The connection of this thread does not count.
  def test_a_relay_that_waits_for_rows_keeps_no_connection_of_the_pool
    app = relaying
    app.start
    write(payload: "1")
    await_empty
    pool = ActiveRecord::Base.connection_pool
    taken = -> { pool.connections.select(&:in_use?).map(&:owner) - [Thread.current] }
    eventually(30, -> { "no connection of #{taken.()}" }) { taken.().empty? }
    assert app.stop
  end

  def test_a_message_that_is_too_large_stays_and_others_go_on
    app = relaying(kafka: { "message.max.bytes" => 20_000, "compression.type" => "none" })
    write(payload: "1")
    write(payload: "x" * 40_000)
    write(payload: "behind it")
    write(key: "other", payload: "2")
    app.start
    eventually(30, -> { "two rows: #{rows}" }) { rows == 2 && events("outbox.refused").any? }
    assert_equal [%w[k 1], %w[other 2]], arrived.uniq.sort - [["k", "behind it"]] # the mock shows what was aborted
    assert_equal [:MSG_SIZE_TOO_LARGE, @topic, 1],
                 events("outbox.refused").first[1].then { |e| [e[:error].name, e[:topic], e[:attempts]] }
    Pelton::Outbox::Row.where("attempts > 0").delete_all
    await_empty
    assert_equal ["k", "behind it"], arrived.last
    assert app.stop
  end

  def test_an_error_of_the_database_is_reported_and_the_relay_begins_again
    app = relaying
    app.start
    write(payload: "1")
    await_empty
    connection = ActiveRecord::Base.connection
    connection.rename_table(:pelton_outbox, :elsewhere)
    eventually(30, "a report") { events("error.occurred").any? { |_, e| e[:source] == "background outbox" } }
    connection.rename_table(:elsewhere, :pelton_outbox)
    write(payload: "2")
    await_empty
    assert_equal [%w[k 1], %w[k 2]], arrived
    assert app.stop
  end

  def test_a_stop_while_kafka_is_away_loses_nothing
    app = relaying
    app.start
    write(payload: "1")
    await_empty
    @cluster.broker_down
    write(payload: "2")
    app.stop
    assert_equal 1, rows
    @cluster.broker_up
    app.start
    await_empty
    assert_equal ["k", "2"], arrived.last
    assert app.stop
  end
end
