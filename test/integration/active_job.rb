# frozen_string_literal: true

require "support/guides"
require "support/scenario"
require "support/rails_app"

# Active Job in a real Rails app, with :pelton as its adapter: jobs with records, order per key, errors, changed code,
# jobs for later, attributes that travel, recurring jobs, database transactions, and processes that are killed.

Scenario.needs(RailsApp.missing)

JOBS = <<~RUBY
  class NoteJob < ApplicationJob
    retry_on ZeroDivisionError, wait: 1, attempts: 2
    discard_on ActiveJob::DeserializationError

    def perform(order, word)
      raise ZeroDivisionError if word == "again" && executions == 1
      raise "never" if word == "never"
      die if word == "kill" && Receipt.where(note: "killed").empty?
      Receipt.create!(order_id: order.id, note: "VERSION \#{word} \#{Current.user.inspect} \#{Current.tenant.inspect}")
      Current.user = "left over"
    end

    def die
      Receipt.create!(note: "killed")
      Process.kill(:KILL, Process.pid)
      sleep
    end
  end
RUBY

Scenario.run do
  prefix = "#{unique("jobs")}."
  topics = %w[default keyed default.dead].to_h { |queue| [queue, topic(name: prefix + queue, partitions: 2)] }
  app = RailsApp.new("shop", KAFKA: bootstrap)
  app.rails("generate", "pelton:install", "--quiet")
  # Rake tasks of Rails 6.1 load Active Record before the initializers, and that loads Active Job.
  adapter = "    config.active_job.queue_adapter = :pelton\n"
  app.write("config/application.rb", app.read("config/application.rb").sub(/^  end\nend/, "#{adapter}\\0"))
  app.rails("generate", "model", "order", "total:integer", "--quiet", "--no-test-framework")
  app.rails("generate", "model", "receipt", "order_id:integer", "note", "--quiet", "--no-test-framework")
  app.rails("db:migrate")
  settings = app.read("config/pelton.yml").sub(/group_id: .*/, "group_id: #{prefix}shop")
  # The next server gets the partitions of a killed one after this time.
  app.write("config/pelton.yml", settings.sub(/^( +)bootstrap\.servers: .*/, "\\0\n\\1session.timeout.ms: 6000"))
  app.write("config/initializers/pelton.rb", <<~RUBY)
    Pelton.config.job_topic_prefix = #{prefix.inspect}
    Pelton.config.schedule_topic = "#{prefix}schedule"
    Pelton.config.concurrency = 8 # more than the 5 connections of the pool
    Pelton::CurrentAttributes.carry "Current", :tenant
    Pelton.subscribe("active_job.performed") { |event| puts "ran \#{event[:job_class]} \#{event[:error].class}" }
    %w[schedule.loaded schedule.promoted].each do |name|
      Pelton.subscribe(name) { |event| puts "\#{Time.now} \#{name} \#{event.payload}" }
    end
  RUBY
  app.write("config/pelton.rb", <<~RUBY)
    Pelton.routes do
      active_jobs("default") { retries 1, backoff: 0.1..0.1 }
      active_jobs "keyed"
      active_jobs("made") { creates partitions: 3 }
      active_jobs("ranked") { concurrency 1 }
      active_jobs "urgent"
      topic("#{prefix}pool", to: "PoolConsumer") { concurrency 10, by: ->(message) { message.offset } }
      recurring_job "TickJob", every: "1s", queue: "keyed", arguments: ["tick"]
    end
  RUBY
  app.write("app/models/current.rb", "class Current < ActiveSupport::CurrentAttributes; attribute :user, :tenant; end")
  app.write("app/jobs/tick_job.rb", <<~RUBY)
    class TickJob < ApplicationJob
      def perform(word) = Receipt.create!(note: "\#{word} \#{job_id}")
    end
  RUBY
  app.write("app/jobs/keyed_job.rb", <<~RUBY)
    class KeyedJob < ApplicationJob
      queue_as :keyed
      pelton_key { |job| job.arguments.first }
      def perform(key, number) = Receipt.create!(order_id: number, note: key)
    end
  RUBY
  ranked = Guides.find("docs/guides/active-job.md", "queue_as {").code[/^ +queue_as .*/].sub(":default", ":ranked")
  app.write("app/jobs/ranked_job.rb", <<~RUBY)
    class RankedJob < ApplicationJob
      #{ranked}
      def perform(number)
        IO.select(nil, nil, nil, 0.05) until number.zero? || Receipt.uncached { Receipt.exists?(note: "ranked") }
        Receipt.create!(order_id: number, note: "ranked")
      end
    end
  RUBY
  app.write("config/database.yml", "#{RailsApp::DATABASE}  checkout_timeout: 60\n")
  app.write("app/consumers/pool_consumer.rb", <<~RUBY)
    class PoolConsumer < ApplicationConsumer
      BEGUN = Thread::Queue.new

      def process(message)
        BEGUN << message.offset
        IO.select(nil, nil, nil, 0.05) until BEGUN.size > 5
        Receipt.create!(order_id: message.offset, note: "pool \#{Thread.current.name}")
      end
    end
  RUBY
  change = ->(word) { app.write("app/jobs/note_job.rb", JOBS.gsub("VERSION", word)) }
  change.("first")
  rows = ->(where) { app.rows("SELECT order_id, note FROM receipts WHERE #{where} ORDER BY id") }
  server = nil
  # A job that is missing was not sent, or failed: the server's lines tell, those of the schedule among them.
  state = -> { "#{rows.("1")}\n#{server.output}\n#{app.read("log/development.log").lines.grep(/Discarded|rror/).join}" }
  noted = lambda do |note, count = 1|
    eventually(60, -> { "#{note}, not #{state.()}" }) { rows.("note LIKE '#{note}%'").size >= count }
  end

  # --- missing topics: created in development; elsewhere, and without a route, an error at once, not in 30 s ---

  begun = Time.now
  long = app.runner(<<~RUBY)[/^id (\S+)$/, 1]
    TickJob.set(queue: "made").perform_later("made")
    puts "id \#{TickJob.set(queue: "made", wait: 30.days).perform_later("later").provider_job_id}"
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    begin
      TickJob.set(queue: "other").perform_later("never")
      raise "a job without a topic"
    rescue Pelton::ConfigError => e
      raise e unless e.message == "topic #{prefix}other: does not exist, and no route names it: add its queue to " \
                                  "`active_jobs`"
    end
    took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    raise "it took \#{took} s" if took > 20
  RUBY
  stored = begun..Time.now
  kafka = self.app.admin
  equal(3, kafka.topics("#{prefix}made").fetch("#{prefix}made").partitions.size, "partitions of what was created")
  delete_topic("#{prefix}made")
  eventually(30, "the end of the topic") { !kafka.topics.key?("#{prefix}made") }
  app.runner(<<~RUBY)
    Pelton.config.create_topics = false
    begin
      TickJob.set(queue: "made").perform_later("never")
      raise "a job without a topic"
    rescue Pelton::ConfigError => e
      raise e unless e.message == "topic #{prefix}made: does not exist: run `pelton topics apply`"
    end
  RUBY

  # --- a job is in Kafka when perform_later returns, also if the process is killed then ---

  raises(RuntimeError, /failed/) do
    app.runner(<<~RUBY)
      order = Order.create!(total: 1)
      job = NoteJob.perform_later(order, "hello")
      puts job.provider_job_id
      Process.kill(:KILL, Process.pid)
    RUBY
  end
  server = child(*app.pelton("server"))
  noted.("first hello nil nil")
  equal([[1, "first hello nil nil"]], rows.("note NOT LIKE 'tick%'"), "receipts")

  # --- the priority chooses the queue: the urgent job runs while all others wait for it, and was enqueued last ---

  app.runner("(1..10).each { |number| RankedJob.perform_later(number) }; RankedJob.set(priority: 1).perform_later(0)")
  noted.("ranked", 11)
  equal(0, rows.("note = 'ranked'").first.first, "the first of the jobs with priorities")

  # --- more workers than database connections: each call of a consumer gives its connection back ---

  self.app.producer.produce_many_sync(Array.new(60) { { topic: "#{prefix}pool", payload: "" } })
  noted.("pool", 60)
  pool = rows.("note LIKE 'pool%'")
  check(pool.map(&:last).uniq.size > 5, "threads of the consumers: #{pool}")
  check(!app.read("log/development.log").include?("ConnectionTimeoutError"), "a consumer without a connection")

  # --- errors: retry_on, a record that is gone, the route's retries and dead letters; the class of newer code ---

  app.runner(<<~RUBY)
    order = Order.create!(total: 2)
    Current.set(tenant: "acme") { NoteJob.perform_later(order, "again") }
    NoteJob.perform_later(order, "never")
    NoteJob.perform_later(Order.create!(total: 3).destroy!, "gone")
    %w[a b c].product((1..10).to_a).sort_by(&:last).each { |key, number| KeyedJob.perform_later(key, number) }
    topic = "#{prefix}default"
    Pelton.producer.produce_sync(topic: topic, payload: NoteJob.new.serialize.merge("job_class" => "LaterJob").to_json)
    Pelton.producer.produce_sync(topic: topic, payload: "no job")
  RUBY
  noted.('first again nil "acme"') # which `retry_on` enqueued again
  letters = read(topics["default.dead"], 2, 3).map { |_, message| message.origin.error }.sort
  equal(%w[Pelton::InvalidJobError Pelton::UnknownJobError RuntimeError], letters, "errors of the dead letters")
  eventually(60, "the job whose record is gone") { app.read("log/development.log").include?("Discarded NoteJob") }
  eventually(60, -> { "30 keyed jobs, not #{rows.("note IN ('a', 'b', 'c')")}" }) do
    rows.("note IN ('a', 'b', 'c')").size == 30
  end
  %w[a b c].each { |key| equal((1..10).to_a, rows.("note = '#{key}'").map(&:first), "the order of #{key}") }

  ["NoteJob NilClass", "NoteJob ZeroDivisionError", "NoteJob RuntimeError", "NoteJob ActiveJob::DeserializationError",
   "KeyedJob NilClass"].each do |text|
    eventually(30, -> { "an event: ran #{text}\n#{server.output}" }) { server.output.include?("ran #{text}\n") }
  end

  # --- a recurring job runs once each time; jobs in a transaction of the database, and many jobs at once ---

  noted.("tick", 3)
  ticks = rows.("note LIKE 'tick%'").map(&:last)
  equal(ticks.uniq, ticks, "recurring jobs")
  eventually(30, "the time of a recurring job in Rails' log") do
    app.read("log/development.log").match?(/Performing TickJob .* enqueued at \d{4}-/)
  end
  app.runner(<<~RUBY)
    order = Order.create!(total: 4)
    if ActiveJob.version >= Gem::Version.new("7.1")
      now, later = %w[one two].map { |word| NoteJob.new(order, "many \#{word}") }
      ActiveJob.perform_all_later(now, later.set(wait: 1))
      raise "not enqueued" unless now.successfully_enqueued? && later.successfully_enqueued?
    end
    if ActiveJob.version >= Gem::Version.new("7.2")
      ids = %w[back committed].map do |word|
        job = nil
        Order.transaction do
          job = NoteJob.perform_later(order, word)
          raise "before the commit" if job.provider_job_id
          raise ActiveRecord::Rollback if word == "back"
        end
        job.provider_job_id
      end
      raise "\#{ids}" unless ids.first.nil? && ids.last
    end
  RUBY
  version = Gem::Specification.find_by_name("activejob").version
  ["many one", "many two"].each { |word| noted.("first #{word}") } if version >= Gem::Version.new("7.1")
  noted.("first committed") if version >= Gem::Version.new("7.2")

  # --- changed code runs without a restart; a job whose process is killed runs again; jobs for later survive that ---

  change.("second")
  app.runner(<<~RUBY)
    gone = NoteJob.set(wait: 3600).perform_later(Order.first, "cancelled")
    Current.set(tenant: "acme") { NoteJob.set(wait: 2).perform_later(Order.first, "later") }
    moved = NoteJob.set(wait: 3600, priority: 5).perform_later(Order.first, "moved")
    raise "not moved" unless Pelton.schedule.reschedule(moved.provider_job_id, in: 1)
    raise "not cancelled" unless Pelton.schedule.cancel(gone.provider_job_id)
    raise "it still waits" if Pelton.schedule.reschedule(gone.provider_job_id, in: 0)
    NoteJob.perform_later(Order.first, "kill")
  RUBY
  equal(128 + Signal.list.fetch("KILL"), exit_code(server, 60), "exit code of the killed server\n#{server.output}")
  server = child(*app.pelton("server"))
  noted.("second kill nil")
  noted.('second later nil "acme"')
  noted.("second moved nil nil")
  # The job for in 30 days outlived both servers. It keeps its time, and can be cancelled.
  at = app.runner(<<~RUBY)[/^at (\S+)$/, 1]
    puts "at \#{Pelton.schedule.find("#{long}").at.to_f}"
    raise "not cancelled" unless Pelton.schedule.cancel("#{long}")
    raise "it still waits" if Pelton.schedule.find("#{long}")
  RUBY
  check(stored.cover?(Time.at(at.to_f - (30 * 86_400))), "the time of the job for in 30 days: #{at}")
  never = %w[gone cancelled never back].map { |word| "note LIKE '% #{word} %'" }.join(" OR ")
  equal([], rows.(never), "receipts of jobs that failed, were cancelled or rolled back")
  server.kill(:TERM)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
end
