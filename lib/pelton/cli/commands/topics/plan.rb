# frozen_string_literal: true

require_relative "../../command"
require_relative "plan_text"

module Pelton
  class CLI
    module Commands
      # `pelton topics plan`
      class TopicsPlan < Command
        details <<~TEXT
          Compares the topics that the app declares with its clusters, and prints what `pelton topics
          apply` would do. It changes nothing. Topics that nothing declares do not count. Those of routes that do
          not exist are named, too.
        TEXT
        details "Exit codes: 0 no difference, 2 a difference, 1 an error, such as a cluster without an answer."
        example "pelton topics plan -r ./app.rb"
        example "pelton topics plan orders -r ./app.rb --json", "one topic, for a script"
        example "pelton topics plan -r ./app.rb --undeclared", "also list topics that nothing declares"
        arguments "[TOPIC...]"
        option :undeclared, "--undeclared", "also list topics that nothing declares"
        option :allow_delete, "--allow-delete", "as apply --allow-delete would see it"
        option :timeout, "--timeout SECONDS", "wait this long for Kafka", type: Float, default: 30
        connects

        # Exit code: the clusters are not as declared.
        DIFFERENCE = 2
        private_constant :DIFFERENCE

        private

        def run
          plan = app.topics.plan(only: (arguments unless arguments.empty?), allow_delete: options[:allow_delete],
                                 timeout: options[:timeout])
          text = PlanText.new(plan, output)
          output.report(options[:undeclared] ? { **text.data, undeclared: plan.undeclared } : text.data) do
            text.print
            print_undeclared(plan) if options[:undeclared]
          end
          plan.empty? ? 0 : DIFFERENCE
        end

        def print_undeclared(plan)
          plan.undeclared.each do |cluster, names|
            output.puts
            output.puts("not declared on #{cluster}: #{names.empty? ? "none" : names.sort.join(", ")}")
          end
        end
      end
    end
  end
end
