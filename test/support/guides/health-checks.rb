# frozen_string_literal: true

{
  "server.healthy?" => {
    before: lambda do
      define("class OrdersConsumer < Pelton::Consumer; #{GuidesTest::CONSUME}; end")
      Pelton.routes { topic("orders", to: OrdersConsumer) }
      Pelton.start
    end,
    after: -> { assert_equal [200, []], define("[status, reasons]") }
  }
}
