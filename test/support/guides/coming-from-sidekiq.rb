# frozen_string_literal: true

# How the blocks of docs/guides/coming-from-sidekiq.md are run: see test/support/guides.rb.
{
  "Sidekiq::Job" => { not_run: "is Sidekiq's" },
  "class ChargeConsumer" => {
    after: lambda do
      Pelton.start
      eventually(20) { $stdout.string == "charging 7: 12.5\n" }
    end
  },
  "class InvoiceConsumer" => {
    given: { "InvoiceJob" => "module InvoiceJob; def self.perform_async(id) = SEEN << id; end" },
    after: lambda do
      Pelton.routes { topic("orders", to: "InvoiceConsumer") }
      assert_equal [7], serve({ "orders" => PAID }, count: 0) { |seen| seen.include?(7) }
    end
  }
}
