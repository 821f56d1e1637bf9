# frozen_string_literal: true

# How the blocks of docs/guides/coming-from-karafka.md are run: see test/support/guides.rb.
{
  "Karafka::App" => { not_run: "is Karafka's" },
  "dead_letters" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; #{CONSUME}; end")
      serve({ "orders" => PAID })
    end
  },
  "mark_as_consumed" => {
    after: lambda do
      Pelton.routes { topic("orders", to: "OrdersConsumer") { decode :json } }
      Pelton.start
      Pelton.producer.produce_sync(topic: "orders", payload: PAID)
      eventually(20) { $stdout.string == "12.5\n" }
    end
  }
}
