# frozen_string_literal: true

require_relative "../command"
require_relative "../doctor"

module Pelton
  class CLI
    module Commands
      # `pelton doctor`
      class Doctor < Command
        details <<~TEXT
          Loads your files and changes nothing. It prints versions, cores, memory and limits of this machine;
          what each topic and group uses, and why; whether brokers and schema registries answer and the topics
          exist; retry topics with messages that no consumer will get; and findings: errors, warnings and notes.
          Examples are timeouts that contradict each other or the brokers, an old FFI, or limits that are too low.

          --options adds every option of librdkafka, as the app's clients would have it, in librdkafka's own
          words (`smallest` is `earliest`). Secrets are hidden.
        TEXT
        example "pelton doctor -r ./app.rb"
        example "pelton doctor -r ./app.rb --strict --json", "in a deployment script"
        narrows
        option :concurrency, "-c", "--concurrency N", "worker threads (config.concurrency)", type: Integer
        option :processes, "-p", "--processes N", "that many processes share this machine", type: Integer, default: 1
        option :offline, "--offline", "do not connect to brokers or registries"
        option :timeout, "--timeout SECONDS", "wait this long for brokers, and for a registry", type: Float, default: 10
        option :options, "--options", "also show all librdkafka options, with their values"
        option :strict, "--strict", "exit with 1 for a warning, too"
        connects

        private

        def run
          report = examine or return 1
          output.report(report) { output.puts report.to_s }
          report.healthy?(strict: options[:strict]) ? 0 : 1
        end

        # nil after an error, whose message is then on stderr.
        def examine
          @given_app.config.override(:concurrency, options[:concurrency]) if options[:concurrency]
          CLI::Doctor.new(app, **chosen, **options.slice(:offline, :timeout, :options, :processes)).examine
        rescue StandardError, ScriptError => e
          failure("cannot run doctor: #{explain(e)}")
          nil
        end
      end
    end
  end
end
