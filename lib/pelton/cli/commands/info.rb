# frozen_string_literal: true

require_relative "../../runtime/native"
require_relative "../../version"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton info`
      class Info < Command
        details <<~TEXT
          Without a broker it prints only what this process knows. If the cluster does not answer, the
          reason is printed in its place, and the exit code is 1.
        TEXT
        example "pelton info --bootstrap localhost:9092"
        example "pelton info -r ./app.rb --json", "with the app's connection and its routes"
        example "pelton info --offline", "versions only"
        option :offline, "--offline", "do not connect to brokers"
        option :timeout, "--timeout SECONDS", "wait this long for brokers", type: Float, default: 10
        connects

        private

        def run
          loaded = app
          cluster, failed = connection.source && !options[:offline] ? cluster_facts : [nil, false]
          output.record({ versions: versions, connection: connection_facts(loaded.config), cluster: cluster,
                          routes: routes(loaded) })
          failed ? 1 : 0
        end

        def versions
          { pelton: VERSION, librdkafka: Native.librdkafka_version, features: Native.librdkafka_features,
            ruby: RUBY_VERSION, platform: RUBY_PLATFORM }
        end

        def connection_facts(config)
          servers = config.kafka.values_at("bootstrap.servers", "metadata.broker.list").compact.first
          { brokers: servers, named_by: connection.source, file: connection.file }
        end

        # The facts, and whether there was an error instead.
        def cluster_facts
          cluster = admin.cluster(timeout: options[:timeout])
          brokers = cluster.brokers.sort_by(&:id).to_h do |broker|
            [broker.id, { address: "#{broker.host}:#{broker.port}", rack: broker.rack }.compact]
          end
          [{ id: cluster.id, controller: cluster.controller, brokers: brokers }, false]
        rescue Error => e
          [{ error: e.message }, true]
        end

        def routes(app)
          groups = app.routes.empty? ? [] : app.routes.groups(app.config)
          stages, topics = groups.flat_map { |group| group.topics.values }.partition(&:stage)
          { groups: groups.size, topics: topics.size, retry_topics: stages.size }
        end
      end
    end
  end
end
