# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Registry
    # The option `tls:` of a registry, and what it makes of a connection.
    class Tls
      OPTIONS = { ca_file: String, crl_file: String, cert_file: String, key_file: String, key_password: String,
                  verify: [true, false].freeze }.freeze
      CRL = /-----BEGIN X509 CRL-----.*?-----END X509 CRL-----/m
      private_constant :CRL, :OPTIONS

      # given: for example { ca_file: "/etc/registry/ca.crt" }. Raises ConfigError.
      #: (Hash[Symbol, untyped]) -> void
      def initialize(given)
        check(given)
        @tls = given.dup.freeze
      end

      # nil: none.
      #: () -> String?
      def key_password = @tls[:key_password]

      # Makes a Net::HTTP that is not open yet speak TLS.
      #: (untyped) -> void
      def secure(http)
        http.use_ssl = true
        http.ca_file = @tls[:ca_file] if @tls[:ca_file] && !@tls[:crl_file]
        http.cert_store = revoking if @tls[:crl_file]
        http.verify_mode = @tls[:verify] == false ? OpenSSL::SSL::VERIFY_NONE : OpenSSL::SSL::VERIFY_PEER
        return unless @tls[:cert_file]

        http.cert = OpenSSL::X509::Certificate.new(File.read(@tls[:cert_file]))
        # Without a password OpenSSL would ask for one on the terminal.
        key = File.read(@tls[:key_file] || @tls[:cert_file])
        http.key = OpenSSL::PKey.read(key, @tls[:key_password].to_s)
      end

      private

      # A store that refuses revoked certificates.
      def revoking
        store = OpenSSL::X509::Store.new
        @tls[:ca_file] ? store.add_file(@tls[:ca_file]) : store.set_default_paths
        File.read(@tls[:crl_file]).scan(CRL) { |text| store.add_crl(OpenSSL::X509::CRL.new(text)) }
        store.flags = OpenSSL::X509::V_FLAG_CRL_CHECK
        store
      end

      def check(given)
        refuse("tls", given.class, "expected a Hash") unless given.is_a?(Hash)
        given.each do |name, value|
          raise ConfigError.unknown(name, OPTIONS.keys, what: "option of registry tls") unless OPTIONS.key?(name)
          next if Array(OPTIONS[name]).any? { |allowed| allowed === value } # rubocop:disable Style/CaseEquality

          refuse("tls #{name}", value, name == :verify ? "expected true or false" : "expected a String")
        end
        %i[ca_file crl_file cert_file key_file].each do |name|
          # Does not show the value, because some users pass the key itself.
          refuse("tls #{name}", nil, "cannot be read, or is not a file") if given[name] && !File.readable?(given[name])
        end
      end

      def refuse(name, value, reason) = raise(ConfigError.new("registry #{name}", value, reason))
    end
    private_constant :Tls
  end
end
