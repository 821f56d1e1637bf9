# frozen_string_literal: true

require "json"
require "open3"
require "shellwords"
require_relative "../errors"
require_relative "services"

module Pelton
  class MskIam
    # A profile of ~/.aws/credentials and ~/.aws/config, or of the files that AWS_SHARED_CREDENTIALS_FILE and
    # AWS_CONFIG_FILE name. Keys and `credential_process` are used; what needs another login is refused by name.
    class Profile
      # Keys of a profile without keys of its own, which Pelton does not follow.
      OTHERS = %w[sso_session sso_start_url role_arn source_profile credential_source].freeze
      private_constant :OTHERS

      # Its name.
      #: String
      attr_reader :name

      #: (String?, Hash[String, String]) -> void
      def initialize(name, env)
        @env = env
        @given = !name.nil?
        @name = name || env["AWS_PROFILE"] || env["AWS_DEFAULT_PROFILE"] || "default"
      end

      #: () -> String?
      def region = values["region"]

      # nil if it has none. Raises ConfigError.
      #: () -> Hash[Symbol, untyped]?
      def credentials
        values = self.values
        if values.key?("aws_access_key_id")
          { access_key_id: values["aws_access_key_id"], secret_access_key: values["aws_secret_access_key"],
            session_token: values["aws_session_token"] }
        elsif values.key?("credential_process") then from_process(values["credential_process"])
        else refuse(values)
        end
      end

      private

      def values
        config = section(file("AWS_CONFIG_FILE", "config"), /\A(?:profile\s+)?(.+)\z/)
        config.merge(section(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), /\A(.+)\z/))
      end

      def refuse(values)
        if (found = OTHERS.find { |key| values.key?(key) })
          raise ConfigError.new(:oauth, nil, "the profile #{@name} has #{found}, which Pelton does not follow: use a " \
                                             "credential_process, or MskIam.new(credentials: -> { … }) with AWS's gem")
        end
        return unless @given && values.empty?

        raise ConfigError.new(:profile, @name, "there is no such profile in ~/.aws: add it, or name another")
      end

      def file(variable, name) = @env[variable] || File.join(@env["HOME"] || Dir.home, ".aws", name)

      # {"aws_access_key_id" => "…"}: the pairs below "[name]". Indented lines belong to a nested setting.
      def section(path, title)
        inside = false
        File.readlines(path, chomp: true, encoding: Encoding::UTF_8).each_with_object({}) do |line, pairs|
          if (heading = line[/\A\s*\[\s*(.*?)\s*\]/, 1]) then inside = heading[title, 1] == @name
          elsif inside && (pair = line.match(/\A([\w-]+)\s*=\s*(.*?)\s*\z/)) then pairs[pair[1]] = pair[2]
          end
        end
      rescue Errno::ENOENT, Errno::EACCES, Errno::ENOTDIR
        {}
      end

      # Its output, as AWS defines it: {"Version": 1, "AccessKeyId": …, "SecretAccessKey": …, "SessionToken": …,
      # "Expiration": …}.
      def from_process(command)
        source = "credential_process of the profile #{@name}"
        output, status = Open3.capture2(*Shellwords.split(command))
        raise ConfigError.new(:oauth, nil, "#{source} #{ending(status)}") unless status.success?

        Services.credentials(output, source, token: "SessionToken")
      rescue SystemCallError, ArgumentError => e
        raise ConfigError.new(:oauth, nil, "#{source} cannot be started: #{e.message}")
      end

      def ending(status) = status.exitstatus ? "ended with code #{status.exitstatus}" : "was killed"
    end
  end
end
