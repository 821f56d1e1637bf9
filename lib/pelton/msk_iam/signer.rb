# frozen_string_literal: true

require "openssl"
require "uri"
require_relative "../version"

module Pelton
  class MskIam
    # The token that MSK expects: a signed address (AWS's "Signature Version 4" in the query), in URL-safe Base64.
    # Source of the rules: AWS's reference on signing, and its aws-msk-iam-sasl-signer libraries.
    module Signer
      SERVICE = "kafka-cluster"
      ALGORITHM = "AWS4-HMAC-SHA256"
      private_constant :SERVICE, :ALGORITHM

      class << self
        # keys: { access_key_id:, secret_access_key:, session_token: }; life: in seconds.
        #: (Hash[Symbol, untyped], String, Time, Integer) -> String
        def token(keys, region, time, life)
          url = "#{address(keys, region, time, life)}&User-Agent=#{escape("pelton/#{VERSION}")}"
          [url].pack("m0").tr("+/", "-_").delete("=")
        end

        # The signed address.
        #: (Hash[Symbol, untyped], String, Time, Integer) -> String
        def address(keys, region, time, life)
          stamp = time.utc.strftime("%Y%m%dT%H%M%SZ")
          scope = [stamp[0, 8], region, SERVICE, "aws4_request"]
          query = query(keys, stamp, scope, life)
          host = "kafka.#{region}.amazonaws.com"
          request = ["GET", "/", query, "host:#{host}", "", "host", digest("")].join("\n")
          signed = [ALGORITHM, stamp, scope.join("/"), digest(request)].join("\n")
          signature = hmac(key(keys[:secret_access_key], scope), signed).unpack1("H*")
          "https://#{host}/?#{query}&X-Amz-Signature=#{signature}"
        end

        private

        # Sorted by name, as it is signed.
        def query(keys, stamp, scope, life)
          { "Action" => "kafka-cluster:Connect", "X-Amz-Algorithm" => ALGORITHM,
            "X-Amz-Credential" => [keys[:access_key_id], *scope].join("/"), "X-Amz-Date" => stamp,
            "X-Amz-Expires" => life.to_s, "X-Amz-Security-Token" => keys[:session_token],
            "X-Amz-SignedHeaders" => "host" }.compact.map { |name, value| "#{name}=#{escape(value)}" }.join("&")
        end

        def key(secret, scope) = scope.inject("AWS4#{secret}") { |key, part| hmac(key, part) }
        def hmac(key, text) = OpenSSL::HMAC.digest("SHA256", key, text)
        def digest(text) = OpenSSL::Digest::SHA256.hexdigest(text)
        def escape(text) = URI.encode_www_form_component(text).gsub("+", "%20").gsub("*", "%2A").gsub("%7E", "~")
      end
    end
  end
end
