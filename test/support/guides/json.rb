# frozen_string_literal: true

# How blocks of docs/guides/json.md are run: see test/support/guides.rb.
{
  "decode :json, symbolize_names: true, freeze: true" => {
    after: lambda do
      payload = serve({ "orders" => PAID }).first.payload
      assert_equal 7, payload[:id]
      assert_predicate payload, :frozen?
    end
  },
  "message.decoded" => {
    after: -> { assert_equal ["order.paid", 12.5], serve({ "orders" => PAID }).first.payload.to_a }
  },
  "key_deserializer :json" => {
    after: lambda do
      Pelton.producer.produce_sync(topic: "orders", key: '{"id":7}', payload: PAID, headers: { "trace" => "a-b" })
      made = serve({}, count: 1).map { |message| [message.key, message.headers] }
      assert_equal [[{ "id" => 7 }, %w[a b]]], made
    end
  }
}
