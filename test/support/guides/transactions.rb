# frozen_string_literal: true

# How blocks of docs/guides/transactions.md are run: see test/support/guides.rb.
{
  "config.on_reload" => {
    after: lambda do
      options = Pelton.config.on_reload.call({ "transactional.id" => "a" }, Pelton::Testing.error(:_FENCED))
      assert_equal({ "transactional.id" => "a-2" }, options)
    end
  },
  "POOL = Pelton.producer_pool" => {
    after: -> { assert_equal ["order 7"], read("paid", 1).map(&:raw_payload) }
  }
}
