# frozen_string_literal: true

require_relative "errors"

module Pelton
  # Messages that are written to a table of your database, in the same transaction as your data. A relay sends them to
  # Kafka after the commit, so a message is sent if and only if the transaction was committed. Needs Active Record and
  # the tables of `rails generate pelton:outbox`. docs/guides/outbox.md describes it.
  #   Order.transaction do
  #     order = Order.create!(total: 12.5)
  #     Pelton::Outbox.produce(topic: "orders", key: order.id.to_s, payload: order.to_json)
  #   end
  module Outbox
    # Header with the id of a message. It is the same if the message is sent twice, so consumers can recognize it
    # (Pelton::Inbox does).
    ID = "pelton.id"
    # Name of the relay's thread.
    THREAD = "outbox"
    private_constant :THREAD

    autoload :Connections, File.expand_path("outbox/connections", __dir__)
    autoload :Locks, File.expand_path("outbox/locks", __dir__)
    autoload :Relay, File.expand_path("outbox/relay", __dir__)
    autoload :Row, File.expand_path("outbox/row", __dir__)

    module_function

    # Writes a message to the outbox, in the database transaction that is open. Takes the keywords of
    # Producer#produce_async, without `label`.
    #   Pelton::Outbox.produce(topic: "orders", key: "7", payload: order.to_json)
    # The message passes the producer's middleware now, and is checked as `produce_async` would check it. Its timestamp
    # is the present time unless you give one. Raises OutboxTransactionError outside of a transaction,
    # InvalidMessageError for wrong arguments, and errors of Active Record. Callable from every thread; it sends nothing
    # and waits only for the database.
    #: (topic: String, payload: String?, ?key: String?, ?partition: Integer?, ?partition_key: String?,
    #:  ?headers: Hash[String, String | Array[String]]?, ?timestamp: (Time | Integer)?) -> void
    def produce(**message) = produce_many([message])

    # Writes many messages with one statement. Each is a Hash with the keywords of `produce`. If one of them is wrong,
    # none is written.
    #   Pelton::Outbox.produce_many(orders.map { |order| { topic: "orders", payload: order.to_json } })
    #: (Array[Hash[Symbol, untyped]]) -> void
    def produce_many(messages)
      producer = Pelton.app.producer
      rows = messages.map { |message| Row.attributes_of(producer.checked(message)) }
      return if rows.empty?

      Row.connected do |connection|
        raise OutboxTransactionError, rows.first.fetch(:topic) unless connection.transaction_open?

        Row.insert_all!(rows)
        Locks.notify(connection)
      end
      nil
    end

    # Runs the relay while the server runs, in a thread of each of its processes. One of them sends at a time; the
    # others stand by. Call it once, for instance in config/pelton.rb.
    #   Pelton::Outbox.relay_with_server
    # batch: most rows of one transaction; poll: seconds between two looks at the table, where the database cannot
    # notify; and at most until the relay sees a stop.
    #: (?app: App, ?batch: Integer, ?poll: Numeric) -> void
    def relay_with_server(app: Pelton.app, batch: 500, poll: 0.5)
      relay = Relay.new(app, batch: batch, poll: poll)
      app.background(THREAD, restart: true) { |stop| relay.run(stop) }
    end

    # What waits in the outbox: the number of rows, the age of the oldest in seconds (0.0: there is none), and the
    # number of rows that Kafka refused.
    #   Pelton::Outbox.stats # => { rows: 3, seconds: 0.2, refused: 0 }
    #: () -> { rows: Integer, seconds: Float, refused: Integer }
    def stats = Row.measure

    # The messages that wait, oldest first, as Hashes with the keywords of `produce`. Tests look at what was written.
    #   Pelton::Outbox.waiting.map { |message| message[:topic] } # => ["orders"]
    #: (?limit: Integer) -> Array[Hash[Symbol, untyped]]
    def waiting(limit: 100) = Row.order(:id).limit(limit).map(&:message)

    # The rows that Kafka refused, oldest first: what is wrong with each, and how often it was tried.
    #   Pelton::Outbox.refused.first # => { id: 7, topic: "orders", key: "9", attempts: 3, error: "…", … }
    #: (?limit: Integer) -> Array[Hash[Symbol, untyped]]
    def refused(limit: 100)
      columns = %i[id topic key attempts error retry_at]
      Row.where("attempts > 0").order(:id).limit(limit).pluck(*columns).map { |values| columns.zip(values).to_h }
    end

    # Lets the relay try refused rows again at once, for instance after you created their topic. Returns their number.
    #   Pelton::Outbox.retry_refused # => 2
    #: () -> Integer
    def retry_refused = Row.where.not(retry_at: nil).update_all(retry_at: nil)

    # Deletes a refused row, which is then never sent. Returns false if there is none with this id.
    #   Pelton::Outbox.delete_refused(7) # => true
    #: (Integer) -> bool
    def delete_refused(id) = Row.where("attempts > 0").where(id: id).delete_all == 1
  end
end
