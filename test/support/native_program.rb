# frozen_string_literal: true

# The beginning of each program of NativeKit#in_process.
require "json"
require "pelton/runtime/native"

N = Pelton::Native
CLUSTER = N::EmbeddedCluster.new(1)
CLUSTER.create_topic("t", 1)
SERVER = { "bootstrap.servers" => CLUSTER.bootstrap_servers }.freeze
NOWHERE = { "bootstrap.servers" => "127.0.0.1:1", "log_level" => "0" }.freeze

def producer(options = {}) = N::Producer.new("producer", { **SERVER, "linger.ms" => "1", **options })

def subscription(options = {})
  N::Subscription.new("subscription", { **SERVER, "group.id" => "g", "auto.offset.reset" => "earliest", **options },
                      { prefetch_batches: 100 })
end

def say(*words)
  $stdout.puts(*words)
  $stdout.flush
end
