# frozen_string_literal: true

require_relative "../runtime/secrets"
require_relative "settings"

module Pelton
  module Settings
    # The settings of an app that differ from their defaults, as short texts without secrets.
    #   Changed.of(config) # => { "concurrency" => "10", "liveness.port" => "9292", "kafka.linger.ms" => "5" }
    module Changed
      # Most entries, and characters of a name or value.
      MOST = 200
      LONGEST = 200
      # Of any other value, only its class is shown: its own text may have secrets, or be long.
      PLAIN = [String, Symbol, Numeric, Range, TrueClass, FalseClass, NilClass].freeze
      private_constant :MOST, :LONGEST, :PLAIN

      class << self
        #: (Config) -> Hash[String, String]
        def of(config)
          found = { APP => config, POLLING => config.polling, LIVENESS => config.liveness }.flat_map do |table, section|
            values = section.to_h.reject { |name, value| name == :kafka || value == table.fetch(name).default }
            values.map { |name, value| ["#{table.prefix}#{name}", value] }
          end
          options = config.kafka.map { |name, value| ["kafka.#{name}", value] }
          (found + options).first(MOST).to_h { |name, value| [cut(name), cut(text(name, value))] }
        end

        private

        def text(name, value) = plain?(value) ? Secrets.show(name, value) : "(#{value.class})"

        def plain?(value)
          value.is_a?(Array) ? value.all? { |nested| plain?(nested) } : PLAIN.any? { |kind| value.is_a?(kind) }
        end

        def cut(text) = text.size > LONGEST ? "#{text[0, LONGEST]}…" : text
      end
    end
  end
end
