# frozen_string_literal: true

require "openssl"
require "socket"
require "support/certificates"

# A server that does nothing but TLS handshakes, with certificates made here.
#
#   server = TlsServer.new
#   server.port                # => 40123
#   server.authority           # => "-----BEGIN CERTIFICATE-----…", which signed its certificate
#   server.handshakes          # => 3, those that succeeded
#   server.close
class TlsServer
  HOSTS = "DNS:localhost,IP:127.0.0.1"

  attr_reader :port, :authority, :handshakes

  # own: its certificate, if it is to be a special one, of this issuer. clients: it wants a certificate of the issuer
  # from each client, too.
  def initialize(issuer = Certificates.certificate("Pelton test authority"), own: nil, clients: false)
    own ||= Certificates.certificate("localhost", issuer: issuer, hosts: HOSTS)
    @authority = issuer[:cert].to_pem
    @context = OpenSSL::SSL::SSLContext.new
    @context.cert = own[:cert]
    @context.key = own[:key]
    verify(issuer) if clients
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

  def verify(issuer)
    @context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(issuer[:cert]) }
    @context.verify_mode = OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
  end

  # One connection after the other: a handshake that a client breaks off ends with its connection.
  def serve
    loop do
      socket = @server.accept
      OpenSSL::SSL::SSLSocket.new(socket, @context).accept
      @handshakes += 1
    rescue OpenSSL::SSL::SSLError, SystemCallError
      nil # the client broke it off
    ensure
      socket&.close
    end
  end
end
