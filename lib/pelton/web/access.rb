# frozen_string_literal: true

require "ipaddr"
require "openssl"
require_relative "../errors"

module Pelton
  class Web
    # Decides which requests the dashboard answers.
    class Access
      # Headers of a proxy: behind one, the address is the proxy's.
      FORWARDED = %w[X_FORWARDED_FOR FORWARDED X_REAL_IP].freeze
      LOCAL = /\A(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?\z/i
      REMOTE = "This dashboard answers only requests from its own machine. Set a password, or allow_remote: true " \
               "behind an authentication of your own."
      HOST = "Unknown host name. Without a password, use localhost or 127.0.0.1."
      private_constant :FORWARDED, :LOCAL, :REMOTE, :HOST

      # Is this an address of this machine only?
      #: (String?) -> bool
      def self.loopback?(address)
        address == "localhost" || IPAddr.new(address.to_s).then { |ip| ip.loopback? || ip.native.loopback? }
      rescue IPAddr::Error
        false
      end

      # An answer of text.
      #: (Integer, String, ?Hash[String, String]) -> [Integer, Hash[String, String], String]
      def self.plain(status, text, more = {})
        [status, { "content-type" => "text/plain; charset=utf-8", **more }, "#{text}\n"]
      end

      #: (user: String?, password: String?, allow_remote: bool) -> void
      def initialize(user:, password:, allow_remote:)
        if user.nil? != password.nil? || [user, password].include?("")
          raise ConfigError.new("user, password", user, "give both, and neither empty")
        end

        @credentials = "#{user}:#{password}" if user
        @allow_remote = allow_remote
      end

      # nil: the request may pass. Otherwise the answer.
      #: (Request) -> [Integer, Hash[String, String], String]?
      def refusal(request)
        return ask unless @credentials.nil? || known?(request.header("AUTHORIZATION").to_s)
        return if @credentials || @allow_remote
        return plain(403, REMOTE) unless local?(request)

        # A name of somebody else's may lead here, and a page of his in your browser.
        plain(403, HOST) unless request.header("HOST").to_s.match?(LOCAL)
      end

      private

      def known?(given)
        scheme, text = given.split(" ", 2)
        scheme.to_s.casecmp?("basic") && same?(text.to_s.unpack1("m"), @credentials)
      end

      def same?(given, other)
        OpenSSL.fixed_length_secure_compare(*[given, other].map { |text| OpenSSL::Digest::SHA256.digest(text) })
      end

      def local?(request)
        self.class.loopback?(request.address) && FORWARDED.none? { |name| request.header(name) }
      end

      def plain(...) = self.class.plain(...)
      def ask = plain(401, "A password is needed.", "www-authenticate" => 'Basic realm="Pelton", charset="UTF-8"')
    end
  end
end
