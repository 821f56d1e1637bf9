# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/secrets"

module Pelton
  module Settings
    # Options for librdkafka: names unchanged, values as Strings. Frozen. `inspect` hides secrets, also in the message
    # of a FrozenError, which shows its receiver.
    class KafkaOptions < Hash
      # {option => [values with which Pelton cannot work, why]}
      REFUSED = {
        "enable.auto.commit" =>
          [/\A(false|f|0)\z/i, "librdkafka's auto commit is what commits marked messages, so a stop or a rebalance " \
                               "would commit nothing; to choose when to commit, use manual_offsets and " \
                               "mark_as_consumed!"],
        "enable.sasl.oauthbearer.unsecure.jwt" =>
          [/\A(true|t|1)\z/i, "librdkafka would not renew such a token: return one from config.oauth"],
        "enable.auto.offset.store" =>
          [/\A(true|t|1)\z/i, "messages would count as consumed before they are processed; Pelton stores offsets " \
                              "when consume returns, or with manual_offsets at mark_as_consumed"],
        "delivery.report.only.error" =>
          [/\A(true|t|1)\z/i, "librdkafka would not report that a message was delivered, so every wait and every " \
                              "flush would run into its timeout"]
      }.freeze
      SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
      private_constant :REFUSED, :SERVERS

      #: (Hash[String | Symbol, untyped]) -> KafkaOptions
      def self.of(options)
        result = new
        options.to_hash.each do |key, value|
          case value
          when String, Symbol, Numeric, true, false then result[key.to_s.dup.freeze] = value.to_s.dup.freeze
          else
            unset = "is nil (an environment variable that is not set?), " if value.nil?
            list = "; join its entries with commas" if value.is_a?(Array)
            raise ConfigError.new(key, value&.class, "#{unset}expected a String, Symbol, Numeric, true or false#{list}")
          end
        end
        check_ports(result)
        REFUSED.each { |key, (values, why)| raise ConfigError.new(key, result[key], why) if values.match?(result[key]) }
        result.freeze
      end

      # librdkafka would take port 99999 for 34463.
      def self.check_ports(options)
        SERVERS.each do |name|
          wrong = options[name].to_s.scan(/:(\d+)\s*(?:,|\z)/).flatten.find { |port| port.to_i > 65_535 } or next
          raise ConfigError.new(name, options[name], "#{wrong} is no port: expected HOST:PORT, with a port up to 65535")
        end
      end
      private_class_method :check_ports

      # Raises ConfigError once the options are complete, because they were checked together.
      #: (String, untyped) -> void
      def []=(key, value)
        if frozen?
          write = "set all of them, config.kafka = { **config.kafka, #{key.to_s.inspect} => value }"
          raise ConfigError.new(key, value, "options cannot be changed in place: #{write}")
        end

        super
      end

      def inspect = Secrets.mask(self).inspect
      alias to_s inspect
      def pretty_print(printer) = printer.pp(Secrets.mask(self))
    end
  end
end
