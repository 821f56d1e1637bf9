# frozen_string_literal: true

require_relative "errors"
require_relative "settings/types"

module Pelton
  # Processes each message once, although Kafka delivers it at least once: the database transaction that does the work
  # also remembers the message. Include it in your consumers. Needs Active Record and the table of
  # `rails generate pelton:inbox`. docs/guides/inbox.md describes it.
  #   class PaymentsConsumer < Pelton::Consumer
  #     include Pelton::Inbox
  #
  #     def process(message)
  #       processed_once(message) { Account.find(message.key).increment!(:balance, message.payload["amount"]) }
  #     end
  #   end
  module Inbox
    # Names of the thread that prunes.
    THREAD = "inbox"
    # Seconds: how long messages are remembered, and how often older ones are deleted.
    TWO_WEEKS = 14 * 24 * 60 * 60
    HOUR = 60 * 60
    # Seconds before a server deletes the first ones: random, because many servers may start together.
    FIRST = 60.0..300.0
    OLDER_THAN = Settings::Setting.new(:older_than, :positive_seconds, TWO_WEEKS, "")
    private_constant :THREAD, :TWO_WEEKS, :HOUR, :FIRST, :OLDER_THAN

    autoload :Row, File.expand_path("inbox/row", __dir__)

    # Runs the block in a database transaction, unless this group processed the message before. The transaction
    # remembers the message. Returns true if the block ran and was committed, and false if the message was processed
    # before. An error of the block rolls both back and is raised again. ActiveRecord::Rollback rolls both back, and the
    # result is nil.
    #   Pelton::Inbox.processed_once(message, group: "billing") { Invoice.create!(message.payload) }
    # A message is the same one if it has the same topic and the same `pelton.id` (see Outbox); without such a header,
    # if it has the same topic, partition and offset. Of a copy in a retry topic, or of a dead letter that was sent
    # back, the first topic counts. Inside of another transaction, both join that one, in a savepoint. Callable from
    # every thread. If another thread or process works on the same message at this moment, it waits for its end.
    #: (Message, group: String) { () -> untyped } -> bool?
    def self.processed_once(message, group:, &block)
      raise ConfigError.new("processed_once", nil, "a block is missing") unless block

      Row.once(group, message, &block)
    end

    # Deletes what is older than this many seconds, in steps of 10,000 rows. Returns the number of rows. A message that
    # comes again after that is processed again.
    #   Pelton::Inbox.prune(older_than: 7 * 24 * 60 * 60) # => 1200
    # Raises ConfigError.
    #: (?older_than: Numeric) -> Integer
    def self.prune(older_than: TWO_WEEKS) = Row.prune(OLDER_THAN.check(older_than))

    # Prunes one to five minutes after the server's start, and then once an hour while it runs. Call it once, for
    # instance in config/pelton.rb. Raises ConfigError.
    #   Pelton::Inbox.prune_with_server(older_than: 7 * 24 * 60 * 60)
    #: (?app: App, ?older_than: Numeric) -> void
    def self.prune_with_server(app: Pelton.app, older_than: TWO_WEEKS)
      seconds = OLDER_THAN.check(older_than)
      app.background(THREAD, restart: true) do |stop|
        pause = rand(FIRST)
        until stop.wait(pause)
          Outbox::Connections.lend { Row.prune(seconds) }
          pause = HOUR
        end
      end
    end

    private

    # Inbox.processed_once for this consumer's group.
    #   def process(message) = processed_once(message) { Invoice.create!(message.payload) }
    #: (Message) { () -> untyped } -> bool?
    def processed_once(message, &block) = Inbox.processed_once(message, group: @pelton.group, &block)
  end
end
