# frozen_string_literal: true

{
  "# app.rb" => {
    after: lambda do
      Pelton.start
      Pelton.producer.produce_sync(topic: "orders", key: "7", payload: "{}")
      eventually(20) { $stdout.string.include?("process #{Process.pid} got 7") }
      assert Pelton.stop
    end
  }
}
