# frozen_string_literal: true

require "uri"
require_relative "../errors"

module Pelton
  class Registry
    # A registry's URL, which shows no secrets. login: ["user", "password"], or nil.
    Address = Struct.new(:scheme, :host, :port, :path, :login) do
      # Raises ConfigError if it is no URL of a registry.
      #: (untyped) -> Address
      def self.of(url)
        uri = URI.parse(url.to_s)
        raise URI::InvalidURIError unless uri.is_a?(URI::HTTP) && uri.hostname && !uri.hostname.empty?

        login = uri.userinfo&.split(":", 2)&.map { |part| URI.decode_www_form_component(part.gsub("+", "%2B")) }
        new(uri.scheme, uri.hostname, uri.port, uri.path, login).freeze
      rescue URI::InvalidURIError, ArgumentError
        # Shows neither the URL nor the cause, which contains it: it may have a password.
        raise ConfigError.new("registry url", nil, "expected http://host:port or https://host:port"), cause: nil
      end

      def to_s = "#{scheme}://#{host}:#{port}#{path}"
      alias_method :inspect, :to_s
    end
    private_constant :Address
  end
end
