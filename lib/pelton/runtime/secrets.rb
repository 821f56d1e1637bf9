# frozen_string_literal: true

module Pelton
  # Decides which option values may be shown. Everything that prints options (inspect, errors, events, logs) asks here.
  module Secrets
    MASK = "[hidden]"

    # Names of options with secret values, librdkafka's and Pelton's: sasl.password, ssl.key.pem, sasl.jaas.config,
    # sasl.oauthbearer.client.secret and others. Also matches typing errors such as sasl.pasword.
    PATTERN = /pas+w|word\b|pwd|secr|token(?!\.endpoint)|credential|private|passphrase|
               \Aoauth\z|\.pem\z|jaas|oauthbearer\.config|oauthbearer\.assertion/xi

    # User and password in a URL: "//billing:s3cret@". It ends at the last @, because a password may contain one.
    LOGIN = %r{//[^\s"']*@}
    PRIVATE_KEY = "PRIVATE KEY-----"
    # Replaces values that are nested deeper than LEVELS, or that contain themselves.
    DEEPER = "[…]"
    LEVELS = 8
    private_constant :LOGIN, :PRIVATE_KEY, :DEEPER, :LEVELS

    module_function

    #: (String | Symbol) -> bool
    def secret?(key) = PATTERN.match?(key.to_s)

    # The value without its secrets: nested options are masked, and URLs have no passwords. around: the Hashes and
    # Arrays that contain the value.
    #: (String | Symbol, untyped, ?Array[untyped]) -> untyped
    def safe(key, value, around = [])
      if value.nil? then nil
      elsif secret?(key) then MASK
      else
        case value
        when Hash, Array then parts(key, value, around)
        when String then text(value)
        else value
        end
      end
    end

    # The value as text, without its secrets.
    #: (String | Symbol, untyped) -> String
    def show(key, value) = (safe = safe(key, value)).equal?(MASK) ? MASK : text(safe.inspect)

    # A text without private keys and passwords in URLs. It may have any encoding, or invalid bytes.
    #: (String) -> String
    def text(value)
      bytes = value.b
      return MASK if bytes.include?(PRIVATE_KEY)

      bytes.match?(LOGIN) ? bytes.gsub(LOGIN, "//#{MASK}@").force_encoding(value.encoding) : value
    end

    # A copy of the options without secrets.
    #: (Hash[String | Symbol, untyped]) -> Hash[String | Symbol, untyped]
    def mask(options) = parts("", options, [])

    def parts(key, value, around)
      return DEEPER if around.size == LEVELS || around.any? { |outer| outer.equal?(value) }

      around += [value]
      return value.map { |nested| safe(key, nested, around) } if value.is_a?(Array)

      value.to_h { |name, nested| [name, safe(name, nested, around)] }
    end
    private_class_method :parts
  end
end
