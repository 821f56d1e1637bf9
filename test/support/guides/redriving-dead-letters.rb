# frozen_string_literal: true

# How the blocks of docs/guides/redriving-dead-letters.md are run: see test/support/guides.rb.
{
  "cluster = Pelton::EmbeddedCluster.start" => { after: -> { assert_equal 3, @errors.size and @errors.clear } },
  'letters.find("674043313d6b1c59")' => {
    before: lambda do
      topics = { "orders" => 4, "orders.dead" => 1, "orders.dead.status" => 1 }
      @letters = Pelton::Testing::Cluster.start(topics: topics)
      Pelton.configure { |config| config.kafka = { "bootstrap.servers" => @letters.bootstrap_servers } }
      origin = { "topic" => "orders", "partition" => "2", "offset" => "0", "attempts" => "1", "group" => "billing",
                 "failure_id" => "674043313d6b1c59" }.transform_keys { |name| "pelton.#{name}" }
      Pelton.producer.produce_sync(topic: "orders.dead", key: "\xFF".b, payload: "\0\1".b,
                                   headers: { **origin, "trace" => "42" })
    end,
    after: lambda do
      message = @letters.messages("orders", 1, timeout: 60).first
      assert_equal ["7", "\0\1".b, { "trace" => "42" }], [message.raw_key, message.raw_payload, message.raw_headers]
      assert_equal({ deleted: 1 }, Pelton.dead_letters("orders.dead").count_by(:status, status: :all))
      Pelton.close
      @letters.close
    end
  }
}
