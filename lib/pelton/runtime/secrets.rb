# frozen_string_literal: true

module Pelton
  # Decides which option values may be shown. Everything that prints options (inspect, errors, events, logs) asks here.
  module Secrets
    MASK = "[hidden]"

    # Matched against librdkafka's names and ours: sasl.password, ssl.key.pem, sasl.oauthbearer.client.secret,
    # sasl.oauthbearer.config, ssl.keystore.password, sasl.jaas.config … and against slips of the pen: sasl.pasword.
    PATTERN = /pas+w|word\b|pwd|secr|token(?!\.endpoint)|credential|private|passphrase|
               \Aoauth\z|\.pem\z|jaas|oauthbearer\.config|oauthbearer\.assertion/xi

    # Before a URL's host: "//billing:s3cret@"; up to the last @, for passwords have some.
    LOGIN = %r{//[^\s"']*@}
    PRIVATE_KEY = "PRIVATE KEY-----"
    # Stands for what is nested deeper, or is what it stands in.
    DEEPER = "[…]"
    LEVELS = 8
    private_constant :LOGIN, :PRIVATE_KEY, :DEEPER, :LEVELS

    module_function

    #: (String | Symbol) -> bool
    def secret?(key) = PATTERN.match?(key.to_s)

    # The value as it may be kept and told: options among it without their secrets, URLs without passwords. around: the
    # Hashes and Arrays that it stands in.
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

    # The value as it may be printed.
    #: (String | Symbol, untyped) -> String
    def show(key, value) = (safe = safe(key, value)).equal?(MASK) ? MASK : text(safe.inspect)

    # A text without what is secret in any: it may be in any encoding, or broken.
    #: (String) -> String
    def text(value)
      bytes = value.b
      return MASK if bytes.include?(PRIVATE_KEY)

      bytes.match?(LOGIN) ? bytes.gsub(LOGIN, "//#{MASK}@").force_encoding(value.encoding) : value
    end

    # A copy of the options in which no secret is left.
    #: (Hash[String | Symbol, untyped]) -> Hash[String | Symbol, untyped]
    def mask(options) = parts("", options, [])

    def parts(key, value, around)
      return DEEPER if around.size == LEVELS || around.any? { |one| one.equal?(value) }

      around += [value]
      return value.map { |one| safe(key, one, around) } if value.is_a?(Array)

      value.to_h { |name, one| [name, safe(name, one, around)] }
    end
    private_class_method :parts
  end
end
