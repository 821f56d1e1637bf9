# frozen_string_literal: true

require "pelton"

# Messages in a script, without a server or a group: the last of each partition, a few, all, a tail. Runs on the
# embedded cluster; on a broker of yours only `bootstrap.servers` is another.
Pelton::EmbeddedCluster.start(topics: { "orders" => 3 }) do |cluster|
  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers } }
  orders = Array.new(30) { |id| { topic: "orders", key: id.to_s, payload: %({"id":#{id},"total":#{id * 1.5}}) } }
  Pelton.producer.produce_many_sync(orders)

  puts "The last message of each partition:"
  Pelton.each("orders", from: -1) { |message| puts "  #{message.topic}/#{message.partition} #{message.raw_payload}" }

  large = Pelton.each("orders", decode: :json).lazy.map(&:payload).select { |order| order["total"] > 30 }
  puts "Two of the large ones: #{large.first(2).map { |order| order["id"] }.inspect}"

  total = Pelton.each("orders", decode: :json).sum { |message| message.dig("total") }
  puts "All of them: #{total}"
  raise "wrong" unless (total - 652.5).abs < 0.01

  puts "A tail of partition 0:"
  Pelton.each({ "orders" => [0] }, from: -1, follow: true) do |message|
    puts "  #{message.raw_payload}"
    break if message.raw_payload == "the end"

    Pelton.producer.produce_async(topic: "orders", partition: 0, payload: "the end")
  end
  Pelton.close
end
