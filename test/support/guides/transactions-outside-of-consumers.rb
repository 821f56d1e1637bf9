# frozen_string_literal: true

# How the blocks of docs/guides/transactions-outside-of-consumers.md are run: see test/support/guides.rb.
{
  "result = POOL.transaction" => {
    after: -> { assert_equal ["order 7"], read("paid", 1).map(&:raw_payload) }
  },
  "Socket.gethostname" => {
    after: lambda do
      POOL.transaction { |tx| tx.produce_async(topic: "paid", payload: "order 7") }
      assert_equal ["order 7"], read("paid", 1).map(&:raw_payload)
    end
  }
}
