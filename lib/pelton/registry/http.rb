# frozen_string_literal: true

require "json"
require "uri"
require_relative "../runtime/backoff"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../logging/printable"
require_relative "../runtime/secrets"
require_relative "references"
require_relative "schema"

module Pelton
  class Registry
    # The registry's protocol, request by request. net/http is loaded with the first one.
    class Http
      TYPE = "application/vnd.schemaregistry.v1+json"
      # A larger answer is no schema.
      MOST_BYTES = 16 << 20
      # Statuses that another server, or a later attempt, may not give.
      PASSING = [408, 429, 500, 502, 503, 504].freeze
      TLS = { ca_file: String, crl_file: String, cert_file: String, key_file: String, key_password: String,
              verify: [true, false].freeze }.freeze
      # "Authorization: Basic YTpi", also within JSON.
      AUTHORIZATION = /((?:authorization"?\s*[:=]\s*"?|\b)(?:basic|bearer)\s+)[^\s"'\\,;]+/i
      CRL = /-----BEGIN X509 CRL-----.*?-----END X509 CRL-----/m
      private_constant :AUTHORIZATION, :CRL, :TYPE, :MOST_BYTES, :PASSING, :TLS

      #: (Array[String], ?user: String?, ?password: String?, ?token: String?, ?tls: Hash[Symbol, untyped],
      #:  ?timeout: Numeric, ?open_timeout: Numeric, ?retries: Integer, ?backoff: Range[Numeric]) -> void
      def initialize(urls, user: nil, password: nil, token: nil, tls: {}, timeout: 10, open_timeout: 5, retries: 2,
                     backoff: 0.2..2)
        @places = urls.map { |url| place(url) }
        refuse(:urls, urls, "expected at least one") if @places.empty?
        refuse(:token, token, "use either a token, or user and password") if token && user
        refuse(:user, nil, "is missing, but a password is set") if password && !user
        @login = [user, password] if user
        @token = checked_token(token)
        @tls = checked_tls(tls)
        @secrets = secrets
        @timeouts = { read_timeout: time(:timeout, timeout), write_timeout: timeout,
                      open_timeout: time(:open_timeout, open_timeout) }
        @retries = retries.is_a?(Integer) && retries >= 0 ? retries : refuse(:retries, retries, "expected >= 0")
        refuse(:backoff, backoff, "expected a Range of seconds") unless seconds?(backoff)
        @backoff = Backoff.new(backoff.begin, backoff.end)
        # Which URL answered last: the first to be asked next time. A wrong one costs a request, so no lock.
        @first = 0
      end

      #: (Integer) -> Schema
      def schema(id) = read(get("schema #{id}", "/schemas/ids/#{id}"), "schema #{id}", id: id)

      # Documented by Confluent ("Get schema by GUID") and by Redpanda; an answer has no number.
      #: (String) -> Schema
      def guid(text) = read(get("schema #{text}", "/schemas/guids/#{text}"), "schema #{text}")

      #: (Integer) -> Schema
      def fingerprint(number)
        reason = "a registry cannot look up fingerprints: use Registry.files"
        raise RegistryError.new("fingerprint #{number.to_s(16)}", reason, status: 404)
      end

      #: (String, Integer | String) -> Schema
      def version(subject, number)
        what = "subject #{subject} version #{number}"
        read(get(what, "/subjects/#{escape(subject)}/versions/#{number}"), what)
      end

      #: (String, Schema) -> Integer
      def id_of(subject, schema) = number("/subjects/#{escape(subject)}", subject, schema)

      #: (String, Schema) -> Integer
      def register(subject, schema) = number("/subjects/#{escape(subject)}/versions", subject, schema)

      # Without what may be secret.
      def inspect = @places.map(&:to_s).join(", ")

      private

      # What a registry says may repeat the request, with the login in it.
      def failure(what, reason, **numbers) = RegistryError.new(redacted(what), redacted(reason), **numbers)

      def redacted(text)
        text = Printable.line(text)
        @secrets.each { |secret| text = text.gsub(secret, Secrets::MASK) }
        text.gsub(AUTHORIZATION) { "#{$1}#{Secrets::MASK}" }
      end

      # In each form that they are sent in, the longest ones first.
      def secrets
        logins = [@login, *@places.map(&:login)].compact
        plain = [@token, @tls[:key_password], *logins.map(&:last)].compact.reject(&:empty?)
        pairs = logins.map { |login| [login.join(":")].pack("m0") }
        all = pairs + plain.flat_map { |one| [one, escape(one), JSON.generate(one)[1..-2], Printable.line(one)] }
        all.uniq.sort_by { |one| -one.size }.freeze
      end

      def number(path, subject, schema)
        body = { schema: schema.text, schemaType: "AVRO" }
        body[:references] = schema.named unless schema.named.empty?
        what = "subject #{subject}"
        answer = ask(what, path, JSON.generate(body))
        answer["id"].is_a?(Integer) ? answer["id"] : raise(failure(what, "its answer has no id"))
      end

      # answer: of the registry, {"schema" => "…", "references" => […]}
      def read(answer, what, id: answer["id"])
        type = answer["schemaType"] || "AVRO"
        raise failure(what, "is #{type}, not AVRO") unless type == "AVRO"
        raise failure(what, "its answer has no schema") unless answer["schema"].is_a?(String)

        named = Array(answer["references"])
        Schema.new(answer["schema"], references: texts(named), named: named, id: id,
                                     subject: answer["subject"], version: answer["version"])
      rescue ConfigError => e
        raise failure(what, e.message), cause: nil # it shows what the registry sent
      end

      # Of the schemas that a schema refers to, each after its own.
      def texts(named)
        References.new do |subject, version|
          get("reference #{subject} version #{version}", "/subjects/#{escape(subject)}/versions/#{version}")
        end.texts(named)
      end

      def get(what, path) = ask(what, path)

      # The answer, from whichever URL gives one.
      def ask(what, path, body = nil)
        error = nil
        (0..@retries).each do |round|
          pause(@backoff.delay(round)) if round.positive?
          @places.size.times do |turn|
            index = (@first + turn) % @places.size
            answer = attempt(@places[index], what, path, body)
            @first = index
            return answer
          rescue RegistryError => e
            raise unless e.status.nil? || PASSING.include?(e.status)

            error = e
          end
          @first = 0
        end
        raise error
      end

      # One request. Raises RegistryError, without a status if there was no answer.
      def attempt(place, what, path, body)
        # Whole, whatever comes: half of it, loaded anew, warns of each method.
        Thread.handle_interrupt(Object => :never) { require "net/http" }
        http = Net::HTTP.new(place.host, place.port)
        http.max_retries = 0
        @timeouts.each { |name, seconds| http.public_send(:"#{name}=", seconds) }
        secure(http) if place.scheme == "https"
        status, text = http.start do |open|
          # Of the whole answer, head and all: net/http's are of each read.
          Timeout.timeout(@timeouts[:read_timeout], Timeout::Error, "the answer takes too long") do
            exchange(open, request(place, path, body))
          end
        end
        understood(what, status, text)
      rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::OpenSSLError, Zlib::Error,
             Net::ProtocolError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError => e
        raise failure(what, "#{place} does not answer: #{e.message} (#{e.class})"), cause: nil
      end

      def request(place, path, body)
        kind = body ? Net::HTTP::Post : Net::HTTP::Get
        request = kind.new("#{place.path.chomp("/")}#{path}", "Accept" => "#{TYPE}, application/json")
        request.content_type = TYPE if body
        request.body = body
        user, password = @login || place.login
        request.basic_auth(user, password.to_s) if user && !@token
        request["Authorization"] = "Bearer #{@token}" if @token
        request
      end

      # [status, body], of which no more is read than a schema may have.
      def exchange(http, request)
        text = "".b
        response = http.request(request) do |answer|
          answer.read_body do |part|
            text << part
            raise IOError, "the answer has more than #{MOST_BYTES} bytes" if text.bytesize > MOST_BYTES
          end
        end
        [response.code.to_i, text.force_encoding(Encoding::UTF_8)]
      end

      def understood(what, status, text)
        answer = JSON.parse(text)
        return answer if status == 200 && answer.is_a?(Hash)

        reason, code = answer.values_at("message", "error_code") if answer.is_a?(Hash)
        code = nil unless code.is_a?(Integer)
        raise failure(what, reason&.to_s || "refused", status: status, code: code)
      rescue JSON::ParserError
        raise failure(what, status == 200 ? "its answer is not valid JSON" : "refused", status: status), cause: nil
      end

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

      # Refuses certificates that their authority took back.
      def revoking
        store = OpenSSL::X509::Store.new
        @tls[:ca_file] ? store.add_file(@tls[:ca_file]) : store.set_default_paths
        File.read(@tls[:crl_file]).scan(CRL) { |text| store.add_crl(OpenSSL::X509::CRL.new(text)) }
        store.flags = OpenSSL::X509::V_FLAG_CRL_CHECK
        store
      end

      # Until the next round; ends with the thread.
      def pause(seconds)
        lock = Mutex.new
        deadline = Clock.deadline(seconds)
        lock.synchronize { ConditionVariable.new.wait(lock, Clock.left(deadline)) until Clock.left(deadline).zero? }
      end

      # A URL without its secrets.
      Place = Struct.new(:scheme, :host, :port, :path, :login) do
        def to_s = "#{scheme}://#{host}:#{port}#{path}"
        alias_method :inspect, :to_s
      end
      private_constant :Place

      def place(url)
        uri = URI.parse(url.to_s)
        raise URI::InvalidURIError unless uri.is_a?(URI::HTTP) && uri.hostname && !uri.hostname.empty?

        login = uri.userinfo&.split(":", 2)&.map { |part| URI.decode_www_form_component(part.gsub("+", "%2B")) }
        Place.new(uri.scheme, uri.hostname, uri.port, uri.path, login).freeze
      rescue URI::InvalidURIError, ArgumentError
        # Neither the value nor the cause, which shows it: it may have a password.
        raise ConfigError.new("registry url", nil, "expected http://host:port or https://host:port"), cause: nil
      end

      def checked_tls(given)
        refuse(:tls, given.class, "expected a Hash") unless given.is_a?(Hash)
        given.each do |name, value|
          raise ConfigError.unknown(name, TLS.keys, what: "option of registry tls") unless TLS.key?(name)
          next if Array(TLS[name]).any? { |allowed| allowed === value } # rubocop:disable Style/CaseEquality

          refuse("tls #{name}", value, name == :verify ? "expected true or false" : "expected a String")
        end
        %i[ca_file crl_file cert_file key_file].each do |name|
          # Not the value: some give the key itself.
          refuse("tls #{name}", nil, "cannot be read, or is not a file") if given[name] && !File.readable?(given[name])
        end
        given.dup.freeze
      end

      def checked_token(given)
        return given if given.nil? || (given.is_a?(String) && !given.match?(/[\r\n]/))

        refuse(:token, given, "expected a String of one line")
      end

      def time(name, value)
        valid = value.is_a?(Numeric) && value.real? && value.positive? && value.to_f.finite?
        valid ? value : refuse(name, value, "expected a number of seconds > 0")
      end

      def seconds?(range)
        range.is_a?(Range) &&
          [range.begin, range.end].all? { |one| one.is_a?(Numeric) && one.real? && one.to_f.finite? && one >= 0 }
      end

      def refuse(name, value, reason) = raise(ConfigError.new("registry #{name}", value, reason))

      def escape(subject) = URI.encode_www_form_component(subject).gsub("+", "%20")
    end
  end
end
