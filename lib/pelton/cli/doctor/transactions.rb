# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../producer/transaction"
require_relative "cluster_admin"

module Pelton
  class CLI
    class Doctor
      # Compares transaction.timeout.ms with what the brokers of each cluster allow.
      class Transactions
        TIMEOUT = "transaction.timeout.ms"
        LARGEST = "transaction.max.timeout.ms"
        ID = "transactional.id"
        private_constant :TIMEOUT, :LARGEST, :ID

        # groups, clusters: see ClusterTopics.
        #: (App, Array[Routing::Group], Hash[String?, Hash[String, Integer]], Numeric) -> void
        def initialize(app, groups, clusters, timeout)
          @kafka = app.config.kafka
          @topics = app.topics
          @groups = groups.select { |group| clusters.key?(group.name) }
          @own = clusters.key?(nil) || @groups.any? { |group| group.connection.empty? }
          @timeout = timeout
        end

        # Waits for Kafka.
        #: (Report) -> void
        def examine(report)
          connections.each { |kafka, level| compare(kafka, level, report) }
        end

        private

        # {options of a cluster => level}. A pool of producers may use the option where no route is `transactional`.
        def connections
          using = @groups.select { |group| group.topics.each_value.any?(&:transactional) }
          levels = using.to_h { |group| [group.connection, :error] }
          level = @kafka.key?(ID) ? :error : (:warning if @kafka.key?(TIMEOUT))
          @own && level ? { {} => level, **levels } : levels
        end

        def compare(kafka, level, report)
          ClusterAdmin.open(@topics, kafka, @timeout) do |admin|
            broker = admin.cluster(timeout: @timeout).brokers.first or next
            largest = admin.config(broker: broker.id, timeout: @timeout)[LARGEST]&.value or next
            report.public_send(level, TIMEOUT, text(Float(largest) / 1000)) if limit > Float(largest) / 1000
          end
        rescue KafkaError => e
          report.note(TIMEOUT, "could not be compared with #{LARGEST} of the brokers: #{e.message}")
        end

        def limit = Producer::Transaction.limit(@kafka)

        def text(largest)
          "#{plain(limit)} s is longer than #{LARGEST} of the brokers (#{plain(largest)} s), so Kafka refuses all " \
            "transactions (INVALID_TRANSACTION_TIMEOUT): lower the one, or raise the other"
        end

        def plain(seconds) = seconds.to_s.delete_suffix(".0")
      end
    end
  end
end
