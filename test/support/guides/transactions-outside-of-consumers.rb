# frozen_string_literal: true

# How the block of docs/guides/transactions-outside-of-consumers.md is run: see test/support/guides.rb.
{
  "POOL = Pelton.producer_pool" => {
    after: -> { assert_equal ["order 7"], read("paid", 1).map(&:raw_payload) }
  }
}
