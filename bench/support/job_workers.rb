# frozen_string_literal: true

require "logger"
require "tmpdir"
require "active_job"
require "pelton/active_job"

# What `perform` of each job leaves behind: [when it was sent, when it was done]
class BenchJob < ActiveJob::Base
  DONE = Thread::Queue.new

  def perform(_text, sent) = DONE << [sent, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
end

ActiveJob::Base.logger = Logger.new(nil)

# What performs jobs: each with a queue of its own, and in processes that the bench forks.
module JobWorkers
  THREADS = 10

  # {"Sidekiq" => -> { a new one }}; without Sidekiq and Redis on this machine, Pelton alone.
  def self.all
    found = system("redis-server", "--version", out: File::NULL) && Gem::Specification.find_all_by_name("sidekiq").any?
    warn "bench: no Sidekiq or no redis-server here" unless found
    { **(found ? { "Sidekiq" => -> { SidekiqWorker.new } } : {}), "Pelton" => -> { PeltonWorker.new } }
  end

  # Jobs in Kafka.
  class PeltonWorker
    def initialize
      @bootstrap = Cluster.bootstrap # before a fork
      topic = Cluster.topic
      nil until Pelton::Native.metadata({ "bootstrap.servers" => @bootstrap }, topic, 15).dig(:topics, topic)&.positive?
      @prefix, @queue = topic.partition("-").then { |word, dash, rest| [word + dash, rest] }
    end

    def enqueuing
      Pelton.configure do |config|
        config.kafka = { "bootstrap.servers" => @bootstrap }
        config.job_topic_prefix = @prefix
        config.group_id = @queue
        config.concurrency = THREADS
        config.logger = nil
      end
      BenchJob.queue_adapter = :pelton
      BenchJob.queue_name = @queue
    end

    def fill(jobs) = jobs.each_slice(1000) { |some| BenchJob.queue_adapter.enqueue_all(some) }

    def working
      enqueuing
      queue = @queue
      Pelton.routes { active_jobs queue }
      Pelton.start
    end

    def stop = Pelton.stop
  end

  # Jobs in a Redis of this process, which writes nothing to disk.
  class SidekiqWorker
    # Its port.
    def self.redis
      @redis ||= begin
        port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
        pid = Process.spawn("redis-server", "--port", port.to_s, "--save", "", "--dir", Dir.tmpdir, out: File::NULL)
        parent = Process.pid
        at_exit { Process.kill(:TERM, pid) if Process.pid == parent }
        port.tap { |number| wait(number) }
      end
    end

    def self.wait(port)
      TCPSocket.open("127.0.0.1", port, &:close)
    rescue Errno::ECONNREFUSED
      IO.select(nil, nil, nil, 0.01)
      retry
    end

    def initialize
      @queue = "bench#{rand(1_000_000)}"
      @port = self.class.redis
    end

    def enqueuing
      require "sidekiq"
      Sidekiq.logger = Logger.new(nil)
      Redis.silence_deprecations = true
      redis = { url: "redis://127.0.0.1:#{@port}", size: THREADS + 5 } # a connection for each thread
      Sidekiq.configure_client { |config| config.redis = redis }
      Sidekiq.configure_server { |config| config.redis = redis }
      BenchJob.queue_adapter = :sidekiq
      BenchJob.queue_name = @queue
    end

    def fill(jobs) = jobs.each(&:enqueue)

    def working
      require "sidekiq/cli" # which makes this process a server
      require "sidekiq/launcher"
      enqueuing
      @launcher = Sidekiq::Launcher.new({ **Sidekiq.options, queues: [@queue], concurrency: THREADS, timeout: 5 })
      @launcher.run
    end

    def stop = @launcher.stop
  end
end
