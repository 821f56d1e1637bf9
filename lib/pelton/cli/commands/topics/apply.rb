# frozen_string_literal: true

require_relative "../../command"
require_relative "plan_text"

module Pelton
  class CLI
    module Commands
      # `pelton topics apply`
      class TopicsApply < Command
        details <<~TEXT
          Makes the clusters as the app declares: creates topics, adds partitions, changes configs. It
          prints the plan and, on a terminal, asks first. It goes on after a change that fails. It never
          touches a topic that nothing declares, and it never removes partitions or changes a replication.
        TEXT
        details "Exit codes: 0 the topics are as declared, 1 a change failed or was refused, 130 interrupted."
        example "pelton topics apply -r ./app.rb"
        example "pelton topics apply -r ./app.rb --yes", "without a question, for a deployment"
        example "pelton topics apply -r ./app.rb --allow-delete", "also delete the topics that are declared as deleted"
        arguments "[TOPIC...]"
        option :allow_delete, "--allow-delete", "delete the topics that are declared as deleted"
        option :timeout, "--timeout SECONDS", "wait this long for the plan and each change", type: Float, default: 30
        confirms
        connects

        private

        def run
          plan = app.topics.plan(only: (arguments unless arguments.empty?), allow_delete: options[:allow_delete],
                                 timeout: options[:timeout])
          text = PlanText.new(plan, output)
          text.print
          wanted = plan.changes.count { |change| !change.refused? }
          return failure("nothing was changed") unless wanted.zero? || agreed?(wanted)

          results = carry_out(plan)
          output.report({ **text.data, results: results.map { |result| row(result, text) } }) { nil }
          report(plan, results, wanted)
        end

        # A script is not asked.
        def agreed?(count) = !input.tty? || confirm("apply these changes (#{count})?")

        # The results until the end, or until Ctrl-C.
        def carry_out(plan)
          results = []
          stopping = interruption
          plan.apply(timeout: options[:timeout]) do |result|
            results << result
            output.puts("done     #{result.change.topic}  #{result.change}") unless result.error
            break if stopping.requested?
          end
          results
        end

        def row(result, text)
          { **text.row(result.change), done: result.error.nil?, error: result.error&.message }
        end

        def report(plan, results, wanted)
          results.each { |result| failure("#{result.change.topic}: #{result.error.message}") if result.error }
          refused = plan.changes.count(&:refused?)
          failure("differences that were refused: #{refused}, see above") if refused.positive?
          left = wanted - results.size
          failure("interrupted; changes that were not applied: #{left}") if left.positive?
          refused.zero? && results.none?(&:error) ? 0 : 1
        end
      end
    end
  end
end
