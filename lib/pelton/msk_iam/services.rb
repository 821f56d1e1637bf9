# frozen_string_literal: true

require "ipaddr"
require "json"
require "net/http"
require "time"
require_relative "../errors"

module Pelton
  class MskIam
    # The services that hand out temporary credentials: a container's, EC2's instance metadata (version 2), and STS for
    # a web identity. Their protocols are in AWS's documentation. None of them is asked through a proxy, except STS.
    class Services
      CONTAINER = "http://169.254.170.2"
      MACHINE = "http://169.254.169.254"
      # Besides loopback addresses: those of ECS and EKS.
      PLAIN = %w[169.254.170.2 169.254.170.23 fd00:ec2::23].freeze
      ROLES = "/latest/meta-data/iam/security-credentials/"
      # Seconds. On a machine that is not Amazon's, nobody answers.
      MACHINE_OPEN = 1
      OPEN = 5
      READ = 10
      NAMES = { access_key_id: "AccessKeyId", secret_access_key: "SecretAccessKey" }.freeze
      SESSION = { "X-aws-ec2-metadata-token-ttl-seconds" => "21600", "Content-Type" => "text/plain" }.freeze
      STS_CREDENTIALS = %w[AssumeRoleWithWebIdentityResponse AssumeRoleWithWebIdentityResult Credentials].freeze
      private_constant :STS_CREDENTIALS, :SESSION, :CONTAINER, :MACHINE, :PLAIN, :ROLES, :MACHINE_OPEN, :OPEN, :READ,
                       :NAMES

      # Reads a document with credentials. Raises ConfigError, which never shows it.
      #: (String, String, ?token: String) -> Hash[Symbol, untyped]
      def self.credentials(text, source, token: "Token")
        document = JSON.parse(text)
        keys = NAMES.transform_values { |name| document[name] }
        expiry = document["Expiration"]
        { **keys, session_token: document[token], expires_at: expiry && Time.iso8601(expiry) }
      rescue JSON::ParserError, ArgumentError, TypeError, NoMethodError
        raise ConfigError.new(:oauth, nil, "#{source}: the answer (#{text.bytesize} bytes) has no credentials")
      end

      #: (Hash[String, String]) -> void
      def initialize(env)
        @env = env
      end

      # nil outside of a container that has some.
      #: () -> Hash[Symbol, untyped]?
      def container
        path, full = @env.values_at("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
        return if path.to_s.empty? && full.to_s.empty?

        uri = URI(path.to_s.empty? ? full : CONTAINER + path)
        refuse_remote(uri)
        self.class.credentials(get(uri, authorization), "the container's credentials")
      end

      # nil if this machine is not Amazon's, or has no role.
      #: () -> Hash[Symbol, untyped]?
      def machine
        return if @env["AWS_EC2_METADATA_DISABLED"].to_s.casecmp?("true")

        base = @env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] || MACHINE
        token = request(Net::HTTP::Put.new(URI("#{base}/latest/api/token"), SESSION), open: MACHINE_OPEN)
        header = { "X-aws-ec2-metadata-token" => token }
        role = get(URI(base + ROLES), header, missing: nil)&.lines&.first&.strip
        self.class.credentials(get(URI(base + ROLES + role), header), "EC2's instance metadata") if role
      rescue Net::OpenTimeout, Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EHOSTDOWN
        nil
      end

      # AssumeRoleWithWebIdentity of STS, which needs no signature.
      #: (String, String, String, String?) -> Hash[Symbol, untyped]
      def web_identity(token, role, session, region)
        base = @env["AWS_ENDPOINT_URL_STS"] || (region ? "https://sts.#{region}.amazonaws.com" : "https://sts.amazonaws.com")
        post = Net::HTTP::Post.new(URI("#{base}/"), "Accept" => "application/json")
        post.set_form_data("Action" => "AssumeRoleWithWebIdentity", "Version" => "2011-06-15", "RoleArn" => role,
                           "RoleSessionName" => session, "WebIdentityToken" => token)
        text = request(post, proxy: :ENV)
        sts_credentials(text) || raise(ConfigError.new(:oauth, nil, "STS: the answer (#{text.bytesize} bytes) has no " \
                                                                    "credentials of the role #{role}"))
      end

      private

      # STS gives its expiry in seconds since 1970.
      def sts_credentials(text)
        found = JSON.parse(text).dig(*STS_CREDENTIALS)
        keys = NAMES.transform_values { |name| found[name] }
        { **keys, session_token: found["SessionToken"], expires_at: Time.at(found["Expiration"]) }
      rescue JSON::ParserError, TypeError, NoMethodError
        nil
      end

      # AWS's rule: an address without TLS is one of this machine or of ECS and EKS, or the credentials would travel
      # readable.
      def refuse_remote(uri)
        host = uri.hostname.to_s
        return if uri.scheme == "https" || PLAIN.include?(host) || host == "localhost" || IPAddr.new(host).loopback?

        raise IPAddr::Error
      rescue IPAddr::Error
        raise ConfigError.new("AWS_CONTAINER_CREDENTIALS_FULL_URI", nil,
                              "#{host} is neither this machine's nor a container service's, and has no TLS")
      end

      def authorization
        file = @env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]
        text = file.to_s.empty? ? @env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] : File.read(file)
        text.to_s.strip.empty? ? {} : { "Authorization" => text.strip }
      end

      def get(uri, header, **options) = request(Net::HTTP::Get.new(uri, header), **options)

      # missing: the result if there is no such thing (404).
      def request(request, open: OPEN, proxy: nil, **options)
        uri = request.uri
        http = Net::HTTP.new(uri.hostname, uri.port, proxy)
        http.use_ssl = uri.scheme == "https"
        http.open_timeout = open
        http.read_timeout = READ
        answer = http.start { http.request(request) }
        return answer.body.to_s if answer.is_a?(Net::HTTPSuccess)
        return options[:missing] if options.key?(:missing) && answer.is_a?(Net::HTTPNotFound)

        raise IOError, "#{uri.hostname}#{uri.path} answered with #{answer.code}"
      end
    end
  end
end
