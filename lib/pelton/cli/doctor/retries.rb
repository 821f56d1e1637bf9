# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/notifications"
require_relative "../../server/stranded_retries"

module Pelton
  class CLI
    class Doctor
      # Finds messages in retry topics that no consumer of the app will process.
      class Retries
        # clusters: {"billing" => { "orders" => 4 }} of the groups whose cluster answered.
        #: (Config, Array[Routing::Group], Hash[String?, Hash[String, Integer]], Module, Numeric) -> void
        def initialize(config, groups, clusters, native, timeout)
          @groups = groups
          @clusters = clusters
          @stranded = StrandedRetries.new(config, bus: Notifications.new, native: native, timeout: timeout)
        end

        # Waits for Kafka.
        #: (Report) -> void
        def examine(report)
          @groups.each { |group| look(group, report) if retry_topics?(group) }
        end

        private

        def retry_topics?(group)
          names = @clusters[group.name].to_h.keys
          group.topics.each_value.any? { |topic| names.any? { |name| topic.retry_topic?(name) } }
        end

        def look(group, report)
          @stranded.of(group).each { |error| report.warning("topic #{error.topic}", error.message) }
        rescue Error => e
          report.note("retry topics", "of group #{group.name} could not be read: #{e.message}")
        end
      end
    end
  end
end
