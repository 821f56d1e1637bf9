# frozen_string_literal: true

require_relative "../../background/scope"
require_relative "../../outbox"
require_relative "../../server/liveness"
require_relative "../../server/signals"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton outbox`
      class Outbox < Command
        # Signals that end it.
        ENDING = %w[INT TERM QUIT].freeze
        private_constant :ENDING

        details <<~TEXT
          Sends the messages that Pelton::Outbox.produce wrote to the database, and deletes them there when
          Kafka has them. It needs no routes. Any number of processes may run it: one works, the others stand
          by. TERM, INT or QUIT end it after the current batch; a second signal ends it at once.

          With config.liveness.port it answers /live, /started and /ready, and with config.liveness.metrics
          also /metrics. A server on the same machine needs another port.
        TEXT
        example "pelton outbox", "in the folder of a Rails app"
        example "pelton outbox -r ./app.rb --batch 100"
        option :batch, "--batch N", "most rows of one transaction", type: Integer, default: 500
        option :poll, "--poll SECONDS", "time between two looks at the table", type: Float, default: 0.5
        option :log, "--[no-]log", "log starts, stops and failures", default: true
        connects
        no_json

        private

        def run
          stopping = Thread::Queue.new
          asked = false
          signals = Signals.new(ENDING) do |name|
            exit!(FORCED) if asked
            asked = true
            stopping << name
          end
          app = connected_app
          signals.renew
          subscribe(app)
          relay = Pelton::Outbox::Relay.new(app, batch: options[:batch], poll: options[:poll])
          liveness = health_of(relay, app)
          scope = Background::Scope.new(nil, {}, bus: app.notifications, timeout: CLOSE)
          scope.start("outbox", restart: true) { |stop| relay.run(stop) }
          liveness&.start
          stopping.pop
          0
        ensure
          scope&.close
          liveness&.close
          signals&.restore
        end

        # Listens before the relay starts, because the port may be taken.
        def health_of(relay, app)
          settings = app.config.liveness
          Liveness.new(settings, relay, app.notifications) if settings.port
        end

        def subscribe(app)
          return unless options[:log] && @log

          @out.sync = true
          app.subscribe(@log.call(@out))
        end
      end
    end
  end
end
