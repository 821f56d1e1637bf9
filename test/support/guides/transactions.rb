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
    before: lambda do
      { "invoices" => %w[1 2 3], "paid" => %w[1 3 3] }.each do |topic, keys|
        keys.each { |key| Pelton.producer.produce_sync(topic: topic, key: key, payload: PAID) }
      end
    end,
    after: -> { assert_equal "missing: [\"2\"]\ntwice: [\"3\"]\naborted: 0\n", $stdout.string }
  }
}
