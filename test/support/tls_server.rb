# frozen_string_literal: true

require "openssl"
require "socket"

# A server that does nothing but TLS handshakes, with certificates made here.
#
#   server = TlsServer.new
#   server.port                # => 40123
#   server.authority           # => "-----BEGIN CERTIFICATE-----…", who signed its certificate
#   server.handshakes          # => 3, those that succeeded
#   server.close
class TlsServer
  attr_reader :port, :authority, :handshakes

  def initialize
    issuer = certificate("Pelton test authority")
    own = certificate("localhost", issuer: issuer)
    @authority = issuer[:cert].to_pem
    @context = OpenSSL::SSL::SSLContext.new
    @context.cert = own[:cert]
    @context.key = own[:key]
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @handshakes = 0 # written by the serving thread only
    @thread = Thread.new { serve }
  end

  def close
    @thread.kill.join
    @server.close
  end

  private

  # One connection after the other: a handshake that a client breaks off ends with its connection.
  def serve
    loop do
      socket = @server.accept
      OpenSSL::SSL::SSLSocket.new(socket, @context).accept
      @handshakes += 1
    rescue OpenSSL::SSL::SSLError, SystemCallError
      nil # the client's business
    ensure
      socket&.close
    end
  end

  # A key with a certificate for it; by itself, or signed by another's.
  def certificate(name, issuer: nil)
    key = OpenSSL::PKey::RSA.new(2048)
    cert = OpenSSL::X509::Certificate.new
    cert.version = 2
    cert.serial = rand(1 << 60)
    cert.subject = OpenSSL::X509::Name.parse("/CN=#{name}")
    cert.issuer = issuer ? issuer[:cert].subject : cert.subject
    cert.public_key = key.public_key
    cert.not_before = Time.now - 3600
    cert.not_after = Time.now + 86_400
    extensions = OpenSSL::X509::ExtensionFactory.new
    cert.add_extension(extensions.create_extension("basicConstraints", issuer ? "CA:FALSE" : "CA:TRUE", true))
    cert.add_extension(extensions.create_extension("subjectAltName", "DNS:localhost,IP:127.0.0.1")) if issuer
    cert.sign(issuer ? issuer[:key] : key, OpenSSL::Digest.new("SHA256"))
    { key: key, cert: cert }
  end
end
