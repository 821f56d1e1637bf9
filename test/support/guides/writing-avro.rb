# frozen_string_literal: true

# How blocks of docs/guides/writing-avro.md are run: see test/support/guides.rb.
{
  "keys.serialize" => { after: -> { assert_equal "\0\0\0\0\2\4k7".b, read("orders", 1).first.raw_key } },
  "subject: :topic_key, schema: schema" => {
    after: -> { assert_equal "\0\0\0\0\2\x0e".b, read("orders", 1).first.raw_key }
  },
  "middleware.append(orders)" => {
    after: lambda do
      Pelton.producer.produce_sync(topic: "orders", payload: { "id" => 7, "kind" => "PAID" })
      assert_equal "\0\0\0\0\1\x0e\0".b, read("orders", 1).first.raw_payload # schema 1, then 7 and the first symbol
    end
  }
}
