# frozen_string_literal: true

# How the blocks of docs/guides/getting-started.md are run: see test/support/guides.rb.
{
  "(partition \#{partition}, offset" => {
    after: lambda do
      Pelton.start
      Pelton.producer.produce_sync(topic: "orders", key: "1", payload: PAID)
      eventually(20) { $stdout.string == "order 1: 12.5 (partition 3, offset 0)\n" }
    end
  },
  "create_topic(" => { not_run: "the embedded cluster has no controller; test/integration/admin.rb creates topics" },
  "3.times do" => { after: -> { assert_equal 3, read("orders", 3).size } }
}
