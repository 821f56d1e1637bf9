# frozen_string_literal: true

require "json"
require "uri"
require_relative "../errors"
require_relative "../logging/printable"

module Pelton
  class Tracing
    # The URL to which spans are posted. Keeps its connection. One thread uses it. A forked child opens its own one.
    class Endpoint
      # Why a request failed. again: it may succeed later; after: in this many seconds, as the collector says, or nil.
      # rejected: so many spans, if the collector has the others.
      Problem = Struct.new(:text, :again, :after, :rejected)
      # Statuses after which the collector asks for another attempt.
      PASSING = [429, 502, 503, 504].freeze
      # The longest pause that a collector may ask for, in seconds.
      LONGEST_PAUSE = 30
      TIMEOUT = 10
      private_constant :PASSING, :LONGEST_PAUSE, :TIMEOUT

      #: (String, ?headers: Hash[String, String], ?timeout: Numeric) -> void
      def initialize(url, headers: {}, timeout: TIMEOUT)
        @uri = parse(url)
        @headers = { "Content-Type" => "application/json", "User-Agent" => "pelton", **headers }.freeze
        @timeout = timeout
        # The connection, and the process that opened it.
        @http = @pid = nil
      end

      # Posts a body and waits for the answer. Returns nil if the collector has it.
      #: (String) -> Problem?
      def post(body)
        answer = connection.post(@uri.request_uri, body, @headers)
        code = answer.code.to_i
        return rejection(answer.body.to_s) if code.between?(200, 299)

        Problem.new("#{self} answered #{code} #{Printable.line(answer.message.to_s)}", PASSING.include?(code),
                    answer["Retry-After"].to_s[/\A\d+\z/]&.to_i&.clamp(0, LONGEST_PAUSE))
      rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::OpenSSLError, Zlib::Error,
             Net::ProtocolError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError => e
        close
        Problem.new("#{self} does not answer: #{Printable.line(e.message)} (#{e.class})", true)
      end

      #: () -> void
      def close
        current&.finish
      rescue IOError
        nil # it was closed meanwhile
      ensure
        @http = nil
      end

      # Without a login.
      def to_s = "#{@uri.scheme}://#{@uri.host}:#{@uri.port}#{@uri.path}"

      private

      # The open connection of this process. The parent's is not closed, because with TLS that would end it there.
      def current = (@http if @pid == Process.pid && @http&.started?)

      def connection
        http = current and return http

        require "net/http"
        http = Net::HTTP.new(@uri.hostname, @uri.port)
        http.use_ssl = @uri.scheme == "https"
        http.max_retries = 0
        http.open_timeout = http.read_timeout = http.write_timeout = @timeout
        http.keep_alive_timeout = 30
        @http = http.start
        @pid = Process.pid
        @http
      end

      # nil: the collector took all spans. It may refuse some, for good, in an answer of success.
      def rejection(body)
        case JSON.parse(body, symbolize_names: true)
        in { partialSuccess: { rejectedSpans: String | Integer => count } => answer } if count.to_i.positive?
          Problem.new("#{self} refused them: #{Printable.line(answer[:errorMessage], 500)}", false, nil, count.to_i)
        else nil
        end
      rescue JSON::ParserError, EncodingError
        nil # as an empty answer
      end

      # Shows neither the URL nor the cause, which contains it: it may have a password.
      def parse(url)
        uri = URI.parse(url.to_s)
        raise URI::InvalidURIError unless uri.is_a?(URI::HTTP) && uri.hostname && !uri.hostname.empty?

        uri.path = "/v1/traces" if ["", "/"].include?(uri.path)
        uri
      rescue URI::InvalidURIError
        raise ConfigError.new("tracing endpoint", nil, "expected http://host:port or https://host:port"), cause: nil
      end
    end
  end
end
