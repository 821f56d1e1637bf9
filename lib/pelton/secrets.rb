# frozen_string_literal: true

module Pelton
  # Decides which option values may be shown. Everything that prints options (inspect, errors, events, logs) asks here.
  module Secrets
    MASK = "[hidden]"

    # Matched against librdkafka's names and ours: sasl.password, ssl.key.pem, sasl.oauthbearer.client.secret,
    # sasl.oauthbearer.config, ssl.keystore.password, sasl.jaas.config … and against slips of the pen: sasl.pasword.
    PATTERN = /pas+w|word\b|pwd|secr|token(?!\.endpoint)|credential|private|passphrase|
               \Aoauth\z|\.pem\z|jaas|oauthbearer\.config|oauthbearer\.assertion/xi

    module_function

    #: (String | Symbol) -> bool
    def secret?(key) = PATTERN.match?(key.to_s)

    # The value as it may be kept and told: options among it without their secrets.
    #: (String | Symbol, untyped) -> untyped
    def safe(key, value)
      if value.nil? then nil
      elsif secret?(key) then MASK
      elsif value.is_a?(Hash) then mask(value)
      else value
      end
    end

    # The value as it may be printed.
    #: (String | Symbol, untyped) -> String
    def show(key, value) = (safe = safe(key, value)).equal?(MASK) ? MASK : safe.inspect

    # A copy of the options in which no secret is left.
    #: (Hash[String | Symbol, untyped]) -> Hash[String | Symbol, untyped]
    def mask(options) = options.to_h { |key, value| [key, safe(key, value)] }
  end
end
