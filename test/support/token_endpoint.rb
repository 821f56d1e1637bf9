# frozen_string_literal: true

require "json"
require "openssl"
require "socket"
require "support/certificates"

# An OIDC provider's token endpoint, as far as librdkafka sees one: HTTPS with a certificate made here, and an unsecured
# JSON Web Token for a client that names itself and its secret. Any other request is refused with 401.
#
#   endpoint = TokenEndpoint.new(client: "me", secret: "hush", life: 20)
#   endpoint.url       # => "https://127.0.0.1:40123/token"
#   endpoint.authority # => "-----BEGIN CERTIFICATE-----…", which signed its certificate
#   endpoint.answers   # => [200, 401]
#   endpoint.close
class TokenEndpoint
  attr_reader :authority

  # life: seconds until a token expires.
  def initialize(client:, secret:, life:)
    issuer = Certificates.certificate("Pelton test authority")
    own = Certificates.certificate("127.0.0.1", issuer: issuer, hosts: "IP:127.0.0.1")
    @authority = issuer[:cert].to_pem
    @authorization = "Basic #{["#{client}:#{secret}"].pack("m0")}"
    @life = life
    @context = OpenSSL::SSL::SSLContext.new
    @context.cert = own[:cert]
    @context.key = own[:key]
    @server = TCPServer.new("127.0.0.1", 0)
    @answers = Thread::Queue.new
    @thread = Thread.new { serve }
  end

  def url = "https://127.0.0.1:#{@server.addr[1]}/token"
  def answers = Array.new(@answers.size) { @answers.pop.tap { |status| @answers << status } }

  def close
    @thread.kill.join
    @server.close
  end

  private

  # One connection after the other.
  def serve
    loop do
      socket = OpenSSL::SSL::SSLSocket.new(@server.accept, @context).tap { |tls| tls.sync_close = true }
      socket.accept
      status, body = answer(headers_of(socket))
      @answers << status
      socket.write("HTTP/1.1 #{status} Answer\r\nContent-Type: application/json\r\n" \
                   "Content-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}")
    rescue OpenSSL::SSL::SSLError, SystemCallError, IOError
      nil # the client broke it off
    ensure
      socket&.close
    end
  end

  # {"authorization" => "Basic bWU6aHVzaA=="}; the body is read, too.
  def headers_of(socket)
    socket.gets
    headers = {}
    while (line = socket.gets&.chomp) && !line.empty?
      name, value = line.split(": ", 2)
      headers[name.downcase] = value
    end
    socket.read(headers["content-length"].to_i)
    headers
  end

  def answer(headers)
    return [401, '{"error":"invalid_client"}'] unless headers["authorization"] == @authorization

    now = Time.now.to_i
    claims = { sub: "pelton", iat: now, exp: now + @life }
    parts = [{ alg: "none" }, claims].map { |part| [JSON.generate(part)].pack("m0").tr("+/", "-_").delete("=") }
    [200, JSON.generate(access_token: "#{parts.join(".")}.", token_type: "Bearer", expires_in: @life)]
  end
end
