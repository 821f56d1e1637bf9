# frozen_string_literal: true

require "active_record"
require "digest"
require_relative "../inbox"

module Pelton
  module Inbox
    # A message that a group processed.
    class Row < ::ActiveRecord::Base
      self.table_name = "pelton_inbox"

      # An id that is stored as it is. Others are hashed: MySQL may ignore case, accents and spaces at the end.
      PLAIN = /\A[a-z0-9._:-]{1,64}\z/
      # Rows per DELETE.
      STEP = 10_000
      private_constant :PLAIN, :STEP

      class << self
        # See Inbox.processed_once. In an open transaction it has a savepoint, so what the block rolls back is not
        # remembered.
        #: (String, Message) { () -> untyped } -> bool?
        def once(group, message)
          transaction(requires_new: true) do
            next false unless remember(group, identity(message))

            yield
            true
          end
        end

        # Deletes rows that are older. Returns their number.
        #: (Numeric) -> Integer
        def prune(seconds)
          old = where("created_at < ?", Time.now.utc - seconds)
          total = 0
          loop do
            count = where(id: old.order(:id).limit(STEP).pluck(:id)).delete_all
            total += count
            return total if count < STEP
          end
        end

        # "orders/0/42", or "orders/" and the message's id.
        #: (Message) -> String
        def identity(message)
          origin = message.origin || message
          id = [*message.raw_headers[Outbox::ID]].last
          return "#{origin.topic}/#{origin.partition}/#{origin.offset}" if id.nil? || id.empty?

          "#{origin.topic}/#{PLAIN.match?(id.b) ? id.b : Digest::SHA256.hexdigest(id)}"
        end

        private

        # Inserts the row, in the transaction that is open. Returns false if it was there. While another transaction
        # inserts the same row, it waits.
        def remember(group, id)
          values = { consumer_group: group, message_id: id, created_at: Time.now.utc }
          insert = "INTO #{table_name} (#{values.keys.join(", ")}) VALUES (?, ?, ?)"
          connection = connection_pool.active_connection?
          insert = ignoring(insert, connection)
          connection.update(sanitize_sql_array([insert, *values.values])) == 1
        end

        # INSERT that changes nothing where the row exists.
        def ignoring(insert, connection)
          return "INSERT IGNORE #{insert}" if connection.adapter_name.match?(/mysql|trilogy/i)

          "INSERT #{insert} ON CONFLICT DO NOTHING"
        end
      end
    end
  end
end
