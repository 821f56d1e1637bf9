# frozen_string_literal: true

{
  "ErrorTracker.report" => {
    given: { "ErrorTracker" => "module ErrorTracker; def self.report(one, facts) = SEEN << [one.message, facts]; end" },
    after: lambda do
      Pelton.app.notifications.publish("error.occurred", error: IOError.new("gone"), source: "kafka")
      Pelton.app.notifications.publish("error.occurred", error: IOError.new("full"), source: "consumer.consume")
      assert_equal [["full", { source: "consumer.consume" }]], Array.new(SEEN.size) { SEEN.pop }
      @errors.clear
    end
  },
  "Reporters::Log.new" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; end")
      serve_orders
      assert_includes $stdout.string, "assigned guide orders/0"
    end
  }
}
