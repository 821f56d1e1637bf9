# How fast do servers of Pelton and of Karafka read 90,000 messages, and how many MB do they take?
# frozen_string_literal: true

require "rbconfig"
require "tmpdir"
require_relative "support"
require_relative "support/orders"

SIZES = { "1 KB" => 1024, "5 KB" => 5120 }.freeze
COUNT = Bench.some(90_000)
PARTITIONS = 5
DIFFERENT = 10_000 # documents, sent several times
SUPPORT = File.expand_path("support", __dir__)
KARAFKA = ["#{SUPPORT}/reader_karafka.rb"].freeze
PELTON = ["-I#{__dir__}/../lib", "#{__dir__}/../exe/pelton", "server", "-r", "#{SUPPORT}/reader_pelton.rb"].freeze
PEER = "Karafka tuned" # fetch.queue.backoff.ms is 10
SMALL = "Pelton, 32 MB" # config.memory
SERVERS = { "Karafka" => KARAFKA, PEER => KARAFKA, "Pelton" => PELTON, SMALL => PELTON,
            "Pelton --no-tune" => [*PELTON, "--no-tune"] }.freeze

# Messages/s, MB at most and MB at the end, of a process of its own.
def serve(server, topic, count, work)
  yjit = ("--yjit" if defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?)
  environment = { "BENCH_READER" => [topic, count, work].join(","), "PELTON_BOOTSTRAP" => Cluster.bootstrap,
                  "BENCH_TUNED" => ("1" if server == PEER), "BENCH_MEMORY" => ("32MB" if server == SMALL) }
  command = [environment, RbConfig.ruby, *yjit, *SERVERS.fetch(server)]
  output = Dir.mktmpdir { |folder| IO.popen(command, chdir: folder, &:readlines) } # Karafka logs to a file there
  line = output.grep(/\A[\d.]+ [\d.]+ [\d.]+$/).last or raise "#{server} did not finish: #{output.last(5).join}"
  line.split.map { |number| Float(number) }
end

def measure(bench, servers, topic, count, name)
  %w[untouched read].each do |work|
    servers.each do |server|
      title = "#{name} #{work}, #{server}"
      peer = ("#{name} #{work}, #{PEER}" if server.start_with?("Pelton") && servers.include?(PEER))
      bench.case(title, "msg/s", vs: peer) do
        speed, most, last = serve(server, topic, count, work)
        bench.note(title, "MB most", most, vs: peer)
        bench.note(title, "MB", last, vs: peer)
        speed
      end
    end
  end
end

Bench.measure("karafka", warm_up: false) do |bench|
  installed = system(RbConfig.ruby, "-e", 'require "karafka"', err: File::NULL, chdir: Dir.tmpdir)
  warn "bench: only Pelton is measured, as Karafka is not installed (gem install karafka)" unless installed
  servers = SERVERS.keys.reject { |server| SERVERS[server] == KARAFKA && !installed }
  SIZES.each do |name, size|
    count = Cluster.fitting(COUNT, size, PARTITIONS)
    orders = Orders.new(bytes: size - 60, description: 175)
    documents = Array.new(DIFFERENT) { orders.next }
    topic = Cluster.filled(count, PARTITIONS) { |index| documents[index % DIFFERENT] }
    measure(bench, servers, topic, count, name)
  end
end
