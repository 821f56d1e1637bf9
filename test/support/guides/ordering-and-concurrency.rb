# frozen_string_literal: true

{
  'dig("customer", "id")' => { after: -> { serve({ "orders" => GuidesTest::PAID }) } },
  "throttle 100" => {
    change: { '"reminders"' => '"orders"', "delay 600" => "delay 0.1" },
    given: { "RemindersConsumer" => "class RemindersConsumer < Pelton::Consumer; #{GuidesTest::CONSUME}; end" },
    after: -> { serve({ "orders" => GuidesTest::PAID }) }
  }
}
