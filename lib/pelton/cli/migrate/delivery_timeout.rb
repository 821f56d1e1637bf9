# frozen_string_literal: true

module Pelton
  class CLI
    module Migrate
      # Compares WaterDrop's max_wait_timeout with message.timeout.ms. A message should fail before the wait ends:
      # otherwise produce_sync raises while it may still be delivered.
      module DeliveryTimeout
        # Pelton's message.timeout.ms.
        DEFAULT = "150000"
        private_constant :DEFAULT

        # What is wrong, and which option fits; nil: nothing, or a value is not known.
        # limit: milliseconds. given: values of message.timeout.ms. target: "config.kafka"
        #: (untyped, Array[String], String) -> String?
        def self.problem(limit, given, target)
          message = (given.empty? ? [DEFAULT] : given).filter_map { |text| Integer(text, exception: false) }.max
          return unless limit.is_a?(Numeric) && message && (message.zero? || limit < message)

          "shorter than message.timeout.ms (#{message.zero? ? "no limit" : "#{message / 1000} s"}): a message may " \
            "still be delivered after produce_sync gave up. To prevent that, add \"message.timeout.ms\" => " \
            "#{fitting(limit)} (three quarters of the wait) to #{target}; messages of produce_async then fail after " \
            "this time, too"
        end

        # 20_000 → "15_000"
        def self.fitting(limit) = (limit * 3 / 4).to_i.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, "_")
        private_class_method :fitting
      end
    end
  end
end
