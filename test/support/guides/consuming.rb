# frozen_string_literal: true

{
  "TracedConsumer" => {
    after: lambda do
      define("class Payments < TracedConsumer; #{GuidesTest::CONSUME}; end")
      Pelton.routes { topic("payments", to: "Payments") }
      serve({ "payments" => GuidesTest::PAID })
      assert_match(%r{^consume of payments/\d took \d}, $stdout.string)
    end
  },
  "config.around_job" => {
    given: { "Tracer" => "module Tracer; def self.span(name) = puts(name).then { yield }; end" },
    after: lambda do
      Pelton.configure { |config| config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers } }
      define("class Payments < Pelton::Consumer; #{GuidesTest::CONSUME}; end")
      Pelton.routes { group("g") { topic("payments", to: "Payments") } }
      serve({ "payments" => GuidesTest::PAID })
      assert_equal %w[payments.assigned payments.consume], $stdout.string.lines(chomp: true).uniq.first(2)
    end
  },
  'group "archive"' => { after: -> { serve({ "orders" => GuidesTest::PAID, "logs.web" => "x" }, count: 3) } },
  "PricesConsumer" => {
    change: { "wait(10)" => "wait(0.1)", "= @prices.clear" => "= SEEN << (@prices.empty? ? :none : @prices.pop)" },
    after: lambda do
      Pelton.routes { topic("orders", to: "PricesConsumer") }
      serve({ "orders" => GuidesTest::PAID }, count: 0) { |seen| seen.grep(Hash).any? }
    end
  }
}
