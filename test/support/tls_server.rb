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
  attr_reader :port, :authority, :handshakes

  def initialize
    issuer = Certificates.certificate("Pelton test authority")
    own = Certificates.certificate("localhost", issuer: issuer, hosts: "DNS:localhost,IP:127.0.0.1")
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
      nil # the client broke it off
    ensure
      socket&.close
    end
  end
end
