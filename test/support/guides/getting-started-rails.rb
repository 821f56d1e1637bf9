# frozen_string_literal: true

# How the blocks of docs/guides/getting-started-rails.md are run, with as much of Rails as they name: see
# test/support/guides.rb. test/integration/rails.rb runs the same in a real application.
{
  'topic "orders", to: "OrdersConsumer"' => {
    after: lambda do
      Pelton.config.group_id = "g"
      assert_equal [%w[orders]], Pelton.routes.groups(Pelton.config).map { |group| group.topics.keys }
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
  "CurrentAttributes.carry" => {
    not_run: "it would change every later block; test/embedded/current_attributes_test.rb has this line"
  },
  "ActiveSupport::Notifications" => { not_run: "Rails' own words; test/integration/rails.rb subscribes like this" },
  "plugin :pelton" => { not_run: "Puma's own words; test/integration/rails_puma.rb has this line" }
}
