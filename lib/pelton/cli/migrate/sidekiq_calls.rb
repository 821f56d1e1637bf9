# frozen_string_literal: true

require_relative "call"
require_relative "finding"

module Pelton
  class CLI
    module Migrate
      # What becomes of Sidekiq's job classes and of calls on them, with their names and arguments:
      # ChargeJob.perform_in(60, 7) → ChargeJob.set(wait: 60).perform_later(7)
      class SidekiqCalls
        GUIDE = "docs/guides/coming-from-sidekiq.md"
        PART = "for work that moves to Kafka; Sidekiq may stay for the rest"
        TESTS = "docs/guides/active-job.md, Tests"
        STEPS = "its steps: ActiveJob::Continuable of Rails 8.1; before, split the work into jobs"
        # Receivers that are the job class around the call.
        ITSELF = [nil, "self", "self.class"].freeze
        private_constant :GUIDE, :PART, :TESTS, :STEPS, :ITSELF

        # workers: their queues, {"ChargeJob" => "charges"}.
        #: (CodeFile, Hash[String, String]) -> void
        def initialize(file, workers)
          @file = file
          @workers = workers
        end

        # `include Sidekiq::Job`, or another constant of Sidekiq's, in a class.
        #: (String, String) -> Row
        def included(name, constant)
          event = "for events: class #{name} < Pelton::Consumer; #{GUIDE}"
          Migrate.differs("class #{name} < ApplicationJob", constant == "Sidekiq::IterableJob" ? STEPS : event)
        end

        # sidekiq_options queue: "charges", retry: 5
        #: (Call) -> Row
        def options(call)
          queue = call.keywords["queue"]
          queue &&= Call.literal(queue)&.to_s&.inspect || @file.text(queue)
          retries = Call.literal(call.keywords["retry"])
          words = { false => " { retries 0 }" }.fetch(retries) { " { retries #{retries} }" if retries.is_a?(Integer) }
          code = [*("queue_as #{queue}" if queue), "in the routes: active_jobs(#{queue || "\"default\""})#{words}"]
          Migrate.differs(code.join("; "), "retries count for the queue; for one class: retry_on")
        end

        # A call without a constant. inside: the job class around it. ChargeJob.set(queue: "low").perform_async(7), or
        # self.class.perform_in(60, 7) in a job class.
        #: (Call, String?) -> Row?
        def by(call, inside)
          itself = ITSELF.include?(call.receiver && @file.text(call.receiver))
          return (on(call, inside) if inside && call.name.start_with?("perform_")) if itself

          set = Call.of(call.receiver) if call.receiver
          owner = @file.constant(set.receiver) if set&.name == "set"
          on(call, owner, kept(set)) if @workers.key?(owner)
        end

        # set: what was `set` before, as code. nil: a call that means nothing to Sidekiq.
        #: (Call, String, ?Array[String]) -> Row?
        def on(call, owner, set = [])
          case call.name
          when "perform_async"
            differs("#{target(owner, set)}.perform_later(#{arguments(call)})", "produce_async(topic:, key:, payload:)")
          when "perform_inline", "perform_sync"
            Migrate.differs("#{owner}.perform_now(#{arguments(call)})", "runs the job's callbacks, too")
          when "perform_bulk"
            Migrate.differs("ActiveJob.perform_all_later(#{rows(call)}.map { |args| #{owner}.new(*args) })",
                            "needs Rails 7.1; before, call perform_later for each")
          when "perform_in" then later(call, owner, set, "wait: ", "in: ")
          when "perform_at" then later(call, owner, set, "wait_until: ", "at: ")
          when "drain"
            Migrate.differs("perform_enqueued_jobs, or consumer_for(\"jobs.#{@workers[owner]}\")", TESTS)
          when "jobs" then Migrate.differs("assert_enqueued_jobs, or produced_messages", TESTS)
          when "clear" then Migrate.differs(nil, "each test begins without jobs: delete it")
          end
        end

        private

        def later(call, owner, set, wait, time)
          at = call.args.empty? ? "…" : @file.text(call.args.first)
          differs("#{target(owner, [*set, "#{wait}#{at}"])}.perform_later(#{arguments(call, 1)})",
                  "produce_later(topic:, payload:, #{time}#{at})")
        end

        # ChargeJob.set(queue: "low")
        def target(owner, set) = set.empty? ? owner : "#{owner}.set(#{set.join(", ")})"

        # The options that Active Job's `set` has, too: ["queue: :low"]
        def kept(set)
          set.keywords.slice("queue", "wait", "wait_until").map { |name, node| "#{name}: #{@file.text(node)}" }
        end

        def differs(job, event) = Migrate.differs("#{job}, or Pelton.producer.#{event}", PART)

        # Without perform_bulk's own options, such as batch_size.
        def rows(call)
          node = call.args.first or return "…"
          text = short(@file.text(node))
          node.is?(:binary, :ifop) ? "(#{text})" : text
        end

        def arguments(call, from = 0)
          words = call.args.drop(from).map { |node| @file.text(node) }
          words += call.keywords.map { |name, node| "#{name}#{": " unless name == "**"}#{@file.text(node)}" }
          short(words.join(", "))
        end

        # "…" for what would not fit into a line of the table.
        def short(text) = text.size > 60 || text.include?("\n") ? "…" : text
      end
    end
  end
end
