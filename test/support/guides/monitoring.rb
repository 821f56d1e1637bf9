# frozen_string_literal: true

{
  "Reporters::Log.new" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; end")
      serve_orders
      assert_includes $stdout.string, "assigned guide orders/0"
    end
  }
}
