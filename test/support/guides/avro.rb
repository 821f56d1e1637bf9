# frozen_string_literal: true

# How blocks of docs/guides/avro.md are run: see test/support/guides.rb.
{
  'register: true, topics: ["orders"]' => {
    change: { "http://localhost:8081" => "https://one:8081" },
    after: -> { assert_equal "\0\0\0\0\2\x0e\0\0".b, read("orders", 1).first.raw_payload } # schema 2, 7, PAID, null
  },
  "decode :avro" => {
    after: lambda do
      bytes = "\0\0\0\0\1\x0e\0".b # schema 1, then 7 and the first symbol
      assert_equal({ "id" => 7, "kind" => "PAID" }, serve({ "orders" => bytes }).first.payload)
    end
  }
}
