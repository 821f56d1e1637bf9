# frozen_string_literal: true

# How blocks of docs/guides/producing.md are run: see test/support/guides.rb.
{
  "wait_all" => {
    after: lambda do
      assert_equal 5, read("orders", 5).size
      assert_predicate read("customers", 1).first, :tombstone?
      assert_equal "click", read("clicks", 1).first.raw_payload
    end
  },
  "has the header trace" => { after: -> { assert_equal "42", read("orders", 1).first.headers["trace"] } },
  "class FailureCounter" => {
    after: lambda do
      2.times do
        assert_raises(Pelton::DeliveryError) do
          Pelton.producer.produce_sync(topic: "orders", payload: "x", partition: 99)
        end
      end
      Pelton.producer.produce_sync(topic: "orders", payload: "x")
      counter = Pelton.producer.middleware.to_a.last
      eventually(20) { counter.failures == { ["orders", :_UNKNOWN_PARTITION] => 2 } }
    end
  },
  "sasl.username" => { before: -> { ENV["KAFKA_PASSWORD"] = "secret" } },
  "pipe_sync" => {
    after: lambda do
      piped = read("orders.eu", 1).first
      assert_equal ["7", '{"id":7}', { "from" => "orders" }], [piped.key, piped.raw_payload, piped.headers]
    end
  },
  "flush_buffer_sync" => { after: -> { assert_equal %w[1 2], read("clicks", 2).map(&:raw_payload).sort } }
}
