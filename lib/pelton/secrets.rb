# frozen_string_literal: true

module Pelton
  # Decides which option values may be shown. Everything that prints options (inspect, errors, events, logs) asks here.
  module Secrets
    MASK = "[hidden]"

    # Matched against librdkafka's names and ours: sasl.password, ssl.key.pem, sasl.oauthbearer.client.secret,
    # sasl.oauthbearer.config, ssl.keystore.password, sasl.jaas.config …
    PATTERN = /password|passwd|secret|token(?!\.endpoint)|credential|private|passphrase|
               \.pem\z|jaas|oauthbearer\.config|oauthbearer\.assertion/xi

    module_function

    #: (String | Symbol) -> bool
    def secret?(key) = PATTERN.match?(key.to_s)

    # The value as it may be printed.
    #: (String | Symbol, untyped) -> String
    def show(key, value) = value.nil? || !secret?(key) ? value.inspect : MASK

    # A copy of the options in which no secret is left.
    #: (Hash[String | Symbol, untyped]) -> Hash[String | Symbol, untyped]
    def mask(options) = options.to_h { |key, value| [key, value.nil? || !secret?(key) ? value : MASK] }
  end
end
