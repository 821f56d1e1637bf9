# frozen_string_literal: true

# How blocks of docs/guides/transactions.md are run: see test/support/guides.rb.
{
  "def process(message)" => {
    after: lambda do
      Pelton.routes { topic("invoices", to: PaidConsumer) { transactional "shop" } }
      Pelton.start
      Pelton.producer.produce_sync(topic: "invoices", key: "7", payload: PAID)
      assert_equal "total 12.5", read("paid", 1).first.raw_payload
      assert Pelton.stop
    end
  },
  "read_uncommitted" => {
    before: -> { fill("paid", 3) },
    after: -> { assert_equal "3 committed, 3 in all\n", $stdout.string }
  }
}
