# frozen_string_literal: true

# What a user does first with an installed gem: produce, consume, decode JSON, TLS.

require "pelton"
require "timeout"
require_relative "certificates"
$LOADED_FEATURES << "support/certificates.rb" # as tls_server.rb calls it
require_relative "tls_server"

PATIENCE = 120
extension = $LOADED_FEATURES.grep(%r{/pelton\.so\z})
abort "not the installed gem: #{extension}" unless extension.all? { |path| path.start_with?(Gem.dir) }

class OrdersConsumer < Pelton::Consumer
  SEEN = Thread::Queue.new

  def consume
    messages.each { |message| SEEN << message.payload["items"] }
  end
end

Pelton::EmbeddedCluster.start(topics: { "orders" => 2 }) do |cluster|
  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers, "compression.type" => "zstd" }
    config.group_id = "first-use"
  end
  Pelton.routes { topic("orders", to: OrdersConsumer) { decode :json } }
  Pelton.start
  Pelton.producer.produce_sync(topic: "orders", payload: '{"items":["tea"]}')
  items = Timeout.timeout(PATIENCE) { OrdersConsumer::SEEN.pop }
  abort "consumed #{items}" unless items == ["tea"]
  undelivered = Pelton.close
  abort "#{undelivered} messages were not delivered" unless undelivered.zero?
end

puts "  produced, compressed, consumed, decoded"

server = TlsServer.new
authority = File.join(__dir__, "authority.pem")
File.write(authority, server.authority)
tls = Pelton::App.new
tls.configure do |config|
  config.kafka = { "bootstrap.servers" => "127.0.0.1:#{server.port}", "security.protocol" => "ssl",
                   "ssl.ca.location" => authority }
  config.logger = nil # the server ends each connection after its handshake
end
tls.producer.produce_async(topic: "orders", payload: "{}")
Timeout.timeout(PATIENCE) { IO.select(nil, nil, nil, 0.01) while server.handshakes.zero? }
tls.producer.purge
tls.close
server.close
puts "  TLS with a verified certificate"
