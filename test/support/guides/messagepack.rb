# frozen_string_literal: true

# How blocks of docs/guides/messagepack.md are run: see test/support/guides.rb.
{
  "Money.load" => {
    after: lambda do
      payload = serve({ "orders" => MSGPACK }).first.payload
      assert_equal({ "type" => "order.paid", "money" => [:money, "\x05".b] }, payload)
    end
  }
}
