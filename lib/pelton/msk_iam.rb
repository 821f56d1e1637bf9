# frozen_string_literal: true

module Pelton
  class MskIam
    # Named before its parts are loaded: otherwise the autoload of pelton.rb would load this file again.
  end
end

require_relative "errors"
require_relative "msk_iam/credentials"
require_relative "msk_iam/signer"

module Pelton
  # Logs in to Amazon MSK with IAM: makes the tokens of `config.oauth` from AWS credentials. Needs no gem. Its address
  # on port 9098 is the cluster's listener for IAM.
  #   Pelton.configure do |config|
  #     config.kafka = { "bootstrap.servers" => "b-1.shop.abc.kafka.eu-west-1.amazonaws.com:9098",
  #                      "security.protocol" => "sasl_ssl", "sasl.mechanisms" => "OAUTHBEARER" }
  #     config.oauth = Pelton::MskIam.new
  #   end
  # Credentials come from the first of these that exists: `credentials:`; the environment; a web identity (Kubernetes);
  # the profile in ~/.aws; the container (ECS, EKS); the machine (EC2). Temporary ones are renewed 5 minutes before they
  # expire. May be called from any thread; Pelton calls it on a thread of its own.
  class MskIam
    # Seconds that a token is valid, as in AWS's own signers. Only the login has to happen in that time.
    LIFE = 900
    # The region within a broker's address, also of a serverless cluster or in China.
    REGION = /\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com/
    private_constant :LIFE, :REGION

    # region: of the cluster; nil: from the address of the brokers, else AWS_REGION, AWS_DEFAULT_REGION, else the
    # profile. profile: a name in ~/.aws; nil: AWS_PROFILE, else "default". credentials: returns `{ access_key_id: "…",
    # secret_access_key: "…" }`, where it may add `session_token:` and `expires_at:` (a Time). That is for everything
    # that Pelton does not know itself, such as SSO. Raises ConfigError.
    #   Pelton::MskIam.new(region: "eu-west-1", profile: "shop")
    #: (?region: String?, ?profile: String?, ?credentials: untyped, ?env: Hash[String, String]) -> void
    def initialize(region: nil, profile: nil, credentials: nil, env: ENV)
      { region: region, profile: profile }.each do |name, value|
        raise ConfigError.new(name, value, "expected a String") unless value.nil? || value.is_a?(String)
      end
      unless credentials.nil? || credentials.respond_to?(:call)
        raise ConfigError.new(:credentials, nil, "expected a callable, such as a lambda")
      end

      @region = region
      @env = env
      @credentials = Credentials.new(profile: profile, given: credentials, env: env)
    end

    # A token for a client, as config.oauth returns it. Raises ConfigError if no credentials were found, and IOError or
    # a SystemCallError if a service that has them cannot be reached.
    #   Pelton::MskIam.new(region: "eu-west-1").call("pelton.producer#1") # => { token: "…", expires_at: … }
    #: (String, ?servers: String?) -> Hash[Symbol, untyped]
    def call(_client, servers: nil)
      keys = @credentials.fetch
      now = Time.now
      expiry = [now + LIFE, keys[:expires_at]].compact.min
      { token: Signer.token(keys, region(servers), now, LIFE), expires_at: expiry, principal: keys[:access_key_id] }
    end

    #: () -> String
    def inspect = "#<#{self.class} region=#{@region || "of the brokers"}>"

    private

    def region(servers)
      found = @region || servers.to_s[REGION, 1] || @env["AWS_REGION"] || @env["AWS_DEFAULT_REGION"] ||
              @credentials.region
      return found if found && !found.empty?

      raise ConfigError.new(:region, nil, "is not known: neither the brokers' address nor AWS_REGION nor the profile " \
                                          "names it. Use MskIam.new(region: \"…\")")
    end
  end
end
