# frozen_string_literal: true

require "json"
require "uri"
require_relative "../runtime/backoff"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "address"
require_relative "redaction"
require_relative "references"
require_relative "schema"
require_relative "tls"

module Pelton
  class Registry
    # Sends the requests of the registry's protocol. The first one loads net/http.
    class Http
      TYPE = "application/vnd.schemaregistry.v1+json"
      # Larger answers are refused.
      MOST_BYTES = 16 << 20
      # An error's text is not shown if its answer is larger: looking for logins in megabytes takes seconds.
      MOST_REASON = 64 << 10
      # Statuses after which another server, or a later attempt, may succeed.
      PASSING = [408, 429, 500, 502, 503, 504].freeze
      # The largest schema number: registries read it as an int of Java.
      MOST_NUMBER = (2**31) - 1
      # Status and code of a subject without a version.
      NO_VERSION = [[404, 40_401], [404, 40_402]].freeze
      private_constant :TYPE, :MOST_BYTES, :MOST_NUMBER, :MOST_REASON, :NO_VERSION, :PASSING

      #: (Array[String], ?user: String?, ?password: String?, ?token: String?, ?tls: Hash[Symbol, untyped],
      #:  ?timeout: Numeric, ?open_timeout: Numeric, ?retries: Integer, ?backoff: Range[Numeric]) -> void
      def initialize(urls, user: nil, password: nil, token: nil, tls: {}, timeout: 10, open_timeout: 5, retries: 2,
                     backoff: 0.2..2)
        @addresses = urls.map { |url| Address.of(url) }
        refuse(:urls, urls, "expected at least one") if @addresses.empty?
        refuse(:token, token, "use either a token, or user and password") if token && user
        refuse(:user, nil, "is missing, but a password is set") if password && !user
        @login = [user, password] if user
        @token = checked_token(token)
        @tls = Tls.new(tls)
        @redaction = redaction
        @timeouts = { read_timeout: time(:timeout, timeout), write_timeout: timeout,
                      open_timeout: time(:open_timeout, open_timeout) }
        @retries = retries.is_a?(Integer) && retries >= 0 ? retries : refuse(:retries, retries, "expected >= 0")
        refuse(:backoff, backoff, "expected a Range of seconds") unless seconds?(backoff)
        @backoff = Backoff.new(backoff.begin, backoff.end)
        # Index of the URL that answered last. The next request tries it first. A stale index costs only one request, so
        # there is no lock.
        @first = 0
      end

      # Does not ask for a larger number: registries answer as for a wrong URL, which is no answer about a schema.
      #: (Integer) -> Schema
      def schema(id)
        what = "schema #{id}"
        raise missing(what, "no registry has a number above #{MOST_NUMBER}") if id > MOST_NUMBER

        read(get(what, "/schemas/ids/#{id}"), what, id: id)
      end

      # Documented by Confluent ("Get schema by GUID") and by Redpanda. The answer contains no schema number.
      #: (String) -> Schema
      def guid(text) = read(get("schema #{text}", "/schemas/guids/#{text}"), "schema #{text}")

      #: (Integer) -> Schema
      def fingerprint(number)
        raise missing("fingerprint #{number.to_s(16)}", "a registry cannot look up fingerprints: use Registry.files")
      end

      #: (String, Integer | String) -> Schema
      def version(subject, number)
        what = "subject #{subject} version #{number}"
        read(get(what, "/subjects/#{escape(subject)}/versions/#{number}"), what)
      end

      #: (String, Schema) -> Integer
      def id_of(subject, schema) = number("/subjects/#{escape(subject)}", subject, schema)

      #: (String, Schema) -> Integer
      def version_of(subject, schema) = number("/subjects/#{escape(subject)}", subject, schema, "version")

      #: (String, Schema) -> Integer
      def register(subject, schema)
        number("/subjects/#{escape(subject)}/versions", subject, schema)
      rescue RegistryError => e
        # Apicurio also answers this if another process registers the same schema at the same time.
        (known_id(subject, schema) if e.status == 409) || raise
      end

      #: (String, Schema) -> bool
      def compatible?(subject, schema)
        answer = post("/compatibility/subjects/#{escape(subject)}/versions/latest", subject, schema)["is_compatible"]
        return answer if [true, false].include?(answer)

        raise failure("subject #{subject}", "its answer has no is_compatible")
      rescue RegistryError => e
        # Some registries answer that a new subject takes any schema; others, that there is no such subject.
        NO_VERSION.include?([e.status, e.code]) || raise
      end

      # The URLs without secrets.
      def inspect = @addresses.map(&:to_s).join(", ")

      private

      def redaction
        logins = [@login, *@addresses.map(&:login)].compact
        Redaction.new([@token, @tls.key_password, *logins.map(&:last)].compact, logins)
      end

      # url: who answered, if it is known; otherwise it was one of these.
      def failure(what, reason, url: inspect, **numbers)
        RegistryError.new(@redaction.call(what), @redaction.call(reason), url: url, **numbers)
      end

      # nil: the registry does not say that it has the schema.
      def known_id(subject, schema)
        id_of(subject, schema)
      rescue RegistryError
        nil
      end

      # With the numbers of a registry that does not know a schema.
      def missing(what, reason) = RegistryError.new(what, reason, status: 404, code: 40_403)

      def number(path, subject, schema, field = "id")
        number = post(path, subject, schema)[field]
        number.is_a?(Integer) ? number : raise(failure("subject #{subject}", "its answer has no #{field}"))
      end

      def post(path, subject, schema)
        body = { schema: schema.text, schemaType: "AVRO" }
        body[:references] = schema.named unless schema.named.empty?
        ask("subject #{subject}", path, JSON.generate(body))
      end

      # answer: {"schema" => "…", "references" => […]}
      def read(answer, what, id: answer["id"])
        type = answer["schemaType"] || "AVRO"
        raise failure(what, "is #{type}, not AVRO") unless type == "AVRO"
        raise failure(what, "its answer has no schema") unless answer["schema"].is_a?(String)

        named = Array(answer["references"])
        Schema.new(answer["schema"], references: texts(what, named), named: named, id: id,
                                     subject: answer["subject"], version: answer["version"])
      rescue ConfigError => e
        raise failure(what, e.message), cause: nil # the cause shows the registry's answer
      end

      # The texts of the schemas that a schema refers to, each after those that it refers to itself.
      def texts(what, named)
        refused = ->(reason) { failure("references of #{what}", reason) }
        References.new(refused) do |subject, version|
          get("reference #{subject} version #{version} of #{what}", "/subjects/#{escape(subject)}/versions/#{version}")
        end.texts(named)
      end

      def get(what, path) = ask(what, path)

      # The answer of the first URL that has one.
      def ask(what, path, body = nil)
        error = nil
        (0..@retries).each do |round|
          Clock.wait(@backoff.delay(round)) if round.positive?
          @addresses.size.times do |turn|
            index = (@first + turn) % @addresses.size
            answer = attempt(@addresses[index], what, path, body)
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
      def attempt(address, what, path, body)
        # Not interruptible: if net/http is loaded partly and then again, Ruby warns about redefined methods.
        Thread.handle_interrupt(Object => :never) { require "net/http" }
        http = Net::HTTP.new(address.host, address.port)
        http.max_retries = 0
        @timeouts.each { |name, seconds| http.public_send(:"#{name}=", seconds) }
        @tls.secure(http) if address.scheme == "https"
        status, text, location = http.start do |open|
          # Limits the time of the whole answer. net/http's timeouts are for each read.
          Timeout.timeout(@timeouts[:read_timeout], Timeout::Error, "the answer takes too long") do
            exchange(open, request(address, path, body))
          end
        end
        understood(what, address, status, text, location)
      rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::OpenSSLError, Zlib::Error,
             Net::ProtocolError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError => e
        raise failure(what, "#{address} does not answer: #{e.message} (#{e.class})", url: nil), cause: nil
      end

      def request(address, path, body)
        kind = body ? Net::HTTP::Post : Net::HTTP::Get
        request = kind.new("#{address.path.chomp("/")}#{path}", "Accept" => "#{TYPE}, application/json")
        request.content_type = TYPE if body
        request.body = body
        user, password = @login || address.login
        request.basic_auth(user, password.to_s) if user && !@token
        request["Authorization"] = "Bearer #{@token}" if @token
        request
      end

      # Returns [status, body, where it redirects to]. Stops reading after MOST_BYTES.
      def exchange(http, request)
        text = "".b
        response = http.request(request) do |answer|
          answer.read_body do |part|
            text << part
            raise IOError, "the answer has more than #{MOST_BYTES} bytes" if text.bytesize > MOST_BYTES
          end
        end
        [response.code.to_i, text.force_encoding(Encoding::UTF_8), response["location"]]
      end

      def understood(what, address, status, text, location)
        numbers = { status: status, url: address.to_s }
        reason = unread(status, text, location)
        raise failure(what, reason, **numbers) if reason

        answer = JSON.parse(text)
        return answer if status == 200 && answer.is_a?(Hash)

        reason, code = answer.values_at("message", "error_code") if answer.is_a?(Hash)
        code = nil unless code.is_a?(Integer)
        reason ||= status == 200 ? "its answer is not a JSON object" : "refused"
        raise failure(what, reason.to_s, code: code, **numbers)
      rescue JSON::ParserError
        raise failure(what, status == 200 ? "its answer is not valid JSON" : "refused", **numbers), cause: nil
      end

      # Why an answer is an error, whatever its body says; nil: the body says what it is.
      def unread(status, text, location)
        return if status == 200
        return redirected(location) if location && (300..399).cover?(status)

        "refused with #{text.bytesize} bytes" if text.bytesize > MOST_REASON
      end

      # Another host must not get the login. So no redirect is followed.
      def redirected(location)
        place = location.include?("://") ? Address.of(location) : location[/\A[^?#]*/]
        "redirects to #{place}, which is not followed: use the URL of the registry itself"
      rescue ConfigError
        "redirects, which is not followed: use the URL of the registry itself"
      end

      def checked_token(given)
        return given if given.nil? || (given.is_a?(String) && given.b.match?(/\A[^\r\n]*\z/))

        refuse(:token, given, "expected a String of one line")
      end

      def time(name, value)
        valid = value.is_a?(Numeric) && value.real? && value.positive? && value.to_f.finite?
        valid ? value : refuse(name, value, "expected a number of seconds > 0")
      end

      def seconds?(range)
        range.is_a?(Range) && [range.begin, range.end].all? do |bound|
          bound.is_a?(Numeric) && bound.real? && bound.to_f.finite? && bound >= 0
        end
      end

      def refuse(name, value, reason) = raise(ConfigError.new("registry #{name}", value, reason))

      def escape(subject) = URI.encode_www_form_component(subject).gsub("+", "%20")
    end
  end
end
