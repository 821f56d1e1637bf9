# frozen_string_literal: true

{
  "attempt < 3" => { after: -> { assert_equal 2, @errors.size and @errors.clear } },
  "retry_in 60, 600" => { after: -> { serve({ "orders" => GuidesTest::PAID }) } },
  "drain: [30]" => {
    given: { "BillsConsumer" => "class BillsConsumer < Pelton::Consumer; #{GuidesTest::CONSUME}; end" },
    after: -> { serve({ "orders" => GuidesTest::PAID }) }
  },
  "message_refused?" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; def consume = " \
             "raise(Pelton::DeliveryError.new(10, :MSG_SIZE_TOO_LARGE, 'x')); end")
      serve({ "orders" => GuidesTest::PAID }, count: 0)
      assert_equal "Pelton::DeliveryError", read("orders.dead", 1).first.origin.error
      assert_equal [Pelton::DeliveryError], @errors.map(&:class)
      @errors.clear
    end
  },
  "on_failure ->" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; def consume = raise(UnknownCustomer, 'x'); end")
      serve({ "orders" => GuidesTest::PAID }, count: 0)
      assert_equal "UnknownCustomer", read("orders.dead", 1).first.origin.error
      assert_equal ["UnknownCustomer"], @errors.map { |error| error.class.name }
      @errors.clear
    end
  }
}
