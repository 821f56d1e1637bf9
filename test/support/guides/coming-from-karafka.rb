# frozen_string_literal: true

# How the blocks of docs/guides/coming-from-karafka.md are run: see test/support/guides.rb.
{
  "Karafka::App" => { not_run: "is Karafka's" },
  "deserializer OrderDecoder.new" => {
    given: { "producer" => "" }, # the consumer's
    after: lambda do
      Pelton.start
      Pelton.producer.produce_sync(topic: "orders", key: "7", payload: PAID)
      assert_equal PAID, read("paid", 1).first.raw_payload
      eventually(20) { $stdout.string == "12.5\n" }
    end
  }
}
