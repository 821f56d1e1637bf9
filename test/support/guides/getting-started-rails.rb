# frozen_string_literal: true

# How the blocks of docs/guides/getting-started-rails.md are run, with as much of Rails as they name: see
# test/support/guides.rb.
rails = <<~RUBY
  module Rails
    def self.env = Struct.new(:development?).new(false)
    def self.application = self
    def self.executor = self
    def self.wrap(*) = yield
  end
RUBY
{
  "config.client_id" => { given: { "Rails" => rails } },
  "class ApplicationConsumer" => {
    after: lambda do
      define("class Payments < ApplicationConsumer; #{CONSUME}; end")
      Pelton.routes { topic("payments", to: "Payments") }
      serve({ "payments" => PAID })
    end
  },
  "Receipt.find_or_create_by!" => {
    given: {
      "ApplicationConsumer" => "class ApplicationConsumer < Pelton::Consumer; end",
      "Receipt" => <<~RUBY
        Receipt = Struct.new(:order_id, :total) do
          def self.find_or_create_by!(order_id:) = SEEN << new(order_id).tap { |receipt| yield receipt }
        end
      RUBY
    },
    after: lambda do
      Pelton.routes { topic("orders", to: "OrdersConsumer") { decode :json } }
      all = serve({ "orders" => PAID }, count: 0, &:any?)
      assert_equal [[7, 12.5]], all.map(&:to_a)
    end
  },
  "after_commit :publish" => {
    given: {
      "ApplicationRecord" => <<~RUBY
        class ApplicationRecord < Struct.new(:id, :total)
          def self.after_commit(name, on:) = define_singleton_method(:create) { |*row| new(*row).send(name) }
        end
      RUBY
    },
    after: lambda do
      TOPLEVEL_BINDING.eval("Order.create(7, 12.5)")
      message = read("orders", 1).first
      assert_equal ["7", { "id" => 7, "total" => 12.5 }], [message.key, JSON.parse(message.raw_payload)]
    end
  },
  "on_worker_boot" => { not_run: "Puma's own words; test/integration/embedding.rb starts in forked workers" }
}
