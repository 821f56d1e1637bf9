# frozen_string_literal: true

require "json"
require "time"
require_relative "../errors"
require_relative "profile"
require_relative "services"

module Pelton
  class MskIam
    # Finds AWS credentials where AWS's tools find them, in their order, and keeps them until shortly before they end.
    # Thread-safe: one thread fetches, the others wait for it.
    class Credentials
      # Seconds before their expiry at which they are fetched again.
      EARLY = 300
      private_constant :EARLY

      #: (profile: String?, given: untyped, env: Hash[String, String], ?services: Services) -> void
      def initialize(profile:, given:, env:, services: Services.new(env))
        @given = given
        @env = env
        @profile = Profile.new(profile, env)
        @named = !profile.nil?
        @services = services
        @lock = Mutex.new
        # The last ones; guarded by @lock.
        @known = nil
      end

      # { access_key_id:, secret_access_key:, session_token:, expires_at: }; the last two may be missing.
      #: () -> Hash[Symbol, untyped]
      def fetch
        @lock.synchronize do
          expiry = @known && @known[:expires_at]
          @known = nil if expiry && expiry - EARLY < Time.now
          @known ||= checked(*find)
        end
      end

      # Of the profile, or nil.
      #: () -> String?
      def region = @profile.region

      private

      # [credentials, where they come from]. A profile that the caller names comes before the environment.
      def find
        found = @given ? [@given.call, "credentials"] : (profile if @named)
        found ||= environment || web_identity || profile || container || machine
        found || raise(ConfigError.new(:oauth, nil, "no AWS credentials were found in the environment, in the " \
                                                    "profile #{@profile.name}, from a container or from EC2"))
      end

      def environment
        id, secret, token = @env.values_at("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        return if id.to_s.empty? && secret.to_s.empty?

        [{ access_key_id: id, secret_access_key: secret, session_token: token }, "the environment"]
      end

      def web_identity
        file, role = @env.values_at("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
        return if file.to_s.empty? || role.to_s.empty?

        region = @env["AWS_REGION"] || @env["AWS_DEFAULT_REGION"] || @profile.region
        session = @env["AWS_ROLE_SESSION_NAME"] || "pelton-#{Process.pid}"
        [@services.web_identity(File.read(file).strip, role, session, region), "the role #{role}"]
      end

      def profile
        found = @profile.credentials
        [found, "the profile #{@profile.name}"] if found
      end

      def container
        found = @services.container
        [found, "the container's credentials"] if found
      end

      def machine
        found = @services.machine
        [found, "EC2's instance metadata"] if found
      end

      # Empty values count as missing. A temporary key without its token is refused by Kafka with little to read.
      def checked(found, source)
        raise ConfigError.new(:oauth, nil, "#{source}: expected a Hash, not #{found.class}") unless found.is_a?(Hash)

        keys = found.reject { |_, value| value.nil? || value == "" }
        %i[access_key_id secret_access_key].each do |name|
          next if keys[name].is_a?(String)

          raise ConfigError.new(:oauth, nil, "#{source}: #{name} is missing")
        end
        expiry = keys[:expires_at]
        return keys if expiry.nil? || (expiry.is_a?(Time) && expiry > Time.now)

        raise ConfigError.new(:oauth, nil, "#{source}: expires_at is #{expiry.inspect}, expected a Time to come")
      end
    end
  end
end
