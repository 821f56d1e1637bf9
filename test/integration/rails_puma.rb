# frozen_string_literal: true

require "support/scenario"
require "support/rails_app"
require "support/unix_http"

# `plugin :pelton` consumes inside of Puma, in single and in cluster mode, with and without preload_app!, and goes on in
# the new workers of a phased restart. A request that produces loses nothing when Puma stops right after it.

Scenario.needs(RailsApp.missing)

Scenario.run do
  name = topic(partitions: 2)
  other = topic(partitions: 1)
  app = RailsApp.new("shop", KAFKA: bootstrap, RAILS_ENV: "production", SECRET_KEY_BASE: "x" * 64)
  app.rails("generate", "pelton:install", "--quiet")
  app.write("config/pelton.rb", "Pelton.routes { topic #{name.inspect}, to: \"SeenConsumer\" }")
  # As an engine does it: its routes do not keep config/pelton.rb from being loaded.
  app.write("config/initializers/engine.rb", "Pelton.routes { topic #{other.inspect}, to: \"SeenConsumer\" }")
  app.write("app/consumers/seen_consumer.rb", <<~RUBY)
    class SeenConsumer < ApplicationConsumer
      def consume = messages.each { |message| puts "seen \#{message.raw_payload} by \#{Process.pid}" }
      def shutdown = puts("shutdown in \#{Process.pid}")
    end
  RUBY
  app.write("app/controllers/orders_controller.rb", <<~RUBY)
    class OrdersController < ActionController::Base
      skip_forgery_protection

      def create
        Pelton.producer.produce_async(topic: #{name.inspect}, key: params[:id], payload: params[:id])
        render plain: Process.pid
      end
    end
  RUBY
  app.write("config/routes.rb", "Rails.application.routes.draw { post \"orders\", to: \"orders#create\" }")

  # Messages in `name`.
  produced = 0
  # Puma's thread closes a pipe to which the trap of SIGTERM writes. On a busy machine, that close may wait forever with
  # Ruby 3.3 and 3.4 (Puma's issue 3677; 3 of 240 times with the shop below, and also with Puma's later `syswrite`).
  stuck = %r{puma/server\.rb:\d+:in [`'](IO#)?close'}
  # Returns false if that happened. In cluster mode Puma kills such a worker after worker_shutdown_timeout, without its
  # hooks. In single mode nobody does.
  try = lambda do |mode, workers, word|
    group = unique(mode)
    socket = "#{app.root}/tmp/#{word}.sock"
    stacks = <<~RUBY
      Thread.new do
        sleep 0.1 until File.exist?("#{socket}.stacks")
        Thread.list.each { |thread| puts "--- \#{thread.inspect}", thread.backtrace }
      end
    RUBY
    app.write("config/puma.rb", <<~RUBY)
      workers #{workers}
      preload_app! #{mode == "cluster"}
      threads 1, 1
      bind "unix://#{socket}"
      worker_shutdown_timeout 15
      on_worker_shutdown { puts "the end of \#{Process.pid}" }
      plugin :pelton
      $stdout.sync = true
      #{stacks if workers.zero?}
    RUBY
    app.write("config/initializers/group.rb", "Pelton.config.group_id = #{group.inspect}")
    server = child(*app.program("puma"))
    http = UnixHttp.new(socket)
    post = ->(id) { http.post("/orders", "id" => id).tap { produced += 1 } }
    eventually(60, -> { "Puma\n#{server.output}" }) { http.listens? }

    seen = -> { server.output.scan(/^seen (\S+) by (\d+)$/) }
    sent = Array.new(5) { |index| "#{word}-#{index}" }
    sent.each { |id| equal("200", post.(id).code, "answer in #{mode} mode\n#{server.output}") }
    mine = -> { seen.().map(&:first).select { |id| id.start_with?(word) }.sort }
    eventually(60, -> { "messages in #{mode} mode\n#{server.output}" }) { mine.().size >= 5 }
    equal(sent, mine.(), "messages in #{mode} mode")
    if workers.positive?
      check(seen.().none? { |_, pid| pid.to_i == server.pid }, "the parent consumes nothing\n#{server.output}")
    end

    # --- a phased restart: workers end one after the other, and new ones go on ---

    booted = -> { server.output.scan(/\(PID: (\d+)\) booted/).flatten }
    if mode == "late" # phased restarts need workers that load the application themselves
      eventually(60, -> { "two workers\n#{server.output}" }) { booted.().size == 2 }
      olds = booted.()
      server.kill(:USR1)
      eventually(60, -> { "two new workers\n#{server.output}" }) { server.output.scan(/booted.*phase: 1$/).size == 2 }
      check((olds & [post.("#{word}-restarted").body]).empty?, "a new worker answers\n#{server.output}")
      eventually(60, -> { "the message by a new worker\n#{server.output}" }) do
        seen.().any? { |id, pid| id == "#{word}-restarted" && !olds.include?(pid) }
      end
    end

    # --- the last request is answered, and Puma stops ---

    post.("last-#{word}")
    server.kill(:TERM)
    late = now + 15
    eventually(60, -> { "the end of Puma\n#{server.output}" }) do
      File.write("#{socket}.stacks", "") if now > late
      server.code || server.output.match?(stuck)
    end
    server.destroy
    payloads = read(name, 2, produced).map { |_, message| message.raw_payload }
    check(payloads.include?("last-#{word}"), "the message of the last request: #{payloads}")
    next false if server.code == 137 || (booted.() - server.output.scan(/^the end of (\d+)$/).flatten).any?

    check(server.output.include?("shutdown in"), "consumers were told of the end\n#{server.output}")
  end

  { "single" => 0, "cluster" => 2, "late" => 2 }.each do |mode, workers|
    ended = (1..4).any? { |attempt| try.(mode, workers, "#{mode}#{attempt}") }
    check(ended, "Puma ended in one of 4 attempts in #{mode} mode")
  end
end
