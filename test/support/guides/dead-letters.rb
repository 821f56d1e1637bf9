# frozen_string_literal: true

{
  "$fixed = true" => { after: -> { assert_equal 3, @errors.size and @errors.clear } },
  'Pelton.each("orders.dead") do' => { after: -> { assert_equal 2, @errors.size and @errors.clear } },
  "on_dead_letter" => {
    change: { "retries: 5" => "retries: 0" },
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; def consume = raise('x'); end")
      serve({ "orders" => GuidesTest::PAID }, count: 0)
      assert_equal "1", read("orders.dead", 1).first.headers["attempt"]
      @errors.clear
    end
  },
  "dispatch_to_dead_letters" => {
    after: lambda do
      Pelton.routes { topic("orders", to: "OrdersConsumer") { dead_letters "orders.dead" } }
      serve({ "orders" => GuidesTest::PAID }, count: 0)
      assert_equal "no customer", read("orders.dead", 1).first.origin.error_message
    end
  }
}
