# frozen_string_literal: true

module Pelton
  class Registry
    # Named before its parts are loaded: otherwise its autoload would load this file again.
  end
end

require_relative "errors"
require_relative "registry/cache"
require_relative "registry/files"
require_relative "registry/inlined"
require_relative "registry/named_types"
require_relative "registry/schema"

module Pelton
  # A client of a schema registry with Confluent's protocol (Confluent, Karapace, Apicurio, Redpanda), with a cache.
  #   registry = Pelton::Registry.new("https://one:8081", "https://two:8081", user: "billing", password: "…")
  #   registry.schema(7).text            # => "{\"type\":\"record\",…}"
  #   registry.latest("orders-value").id # => 7
  # A schema with an id never changes, so it is requested once. So are the number and the version of a schema in a
  # subject, also for an equal Schema. The latest schema of a subject is requested every `ttl` seconds. Something that
  # does not exist is not requested again for `missing_ttl` seconds. If a URL does not answer, the next one is asked.
  # `retries` more rounds follow, with a pause of `backoff` seconds.
  #
  # All methods are callable from every thread. They wait for the network and can be interrupted. Threads that want the
  # same share one request. They raise RegistryError. The first call connects. To read schemas from a folder:
  # Registry.files.
  class Registry
    # Seconds for which a failed request is remembered. So a thousand messages do not wait for the same timeout one by
    # one.
    FAILED_TTL = 1
    # Seconds for which a subject's latest schema stays in use after the registry did not answer, if `ttl` is less.
    OUTAGE_TTL = 30
    autoload :Http, File.expand_path("registry/http", __dir__)
    private_constant :FAILED_TTL, :OUTAGE_TTL

    # A registry that reads schemas from a folder's files, such as `orders-value.avsc`, `7.avsc` or
    # `orders-value.7.avsc`.
    #   Pelton::Registry.files("schemas").latest("orders-value")
    # Raises ConfigError if there is no such folder.
    #: (String) -> Registry
    def self.files(folder) = new(source: Files.new(folder))

    # urls: one or more addresses of the same registry, which may contain user and password.
    #   Pelton::Registry.new("https://one:8081", token: "…", timeout: 5)
    # token: a bearer token, instead of user and password. tls: ca_file, crl_file (revoked certificates), cert_file,
    # key_file, key_password and verify (true). timeout, open_timeout: seconds of one request (10 and 5). retries: 2.
    # backoff: 0.2..2 seconds. ttl: 300 seconds. missing_ttl: 30 seconds. Does not connect. Raises ConfigError.
    #: (*String, ?user: String?, ?password: String?, ?token: String?, ?tls: Hash[Symbol, untyped], ?timeout: Numeric,
    #:  ?open_timeout: Numeric, ?retries: Integer, ?backoff: Range[Numeric], ?ttl: Numeric, ?missing_ttl: Numeric,
    #:  ?source: untyped) -> void
    def initialize(*urls, source: nil, ttl: 300, missing_ttl: 30, **options)
      @source = source || Http.new(urls, **options)
      @ttl = seconds(:ttl, ttl)
      @missing_ttl = seconds(:missing_ttl, missing_ttl)
      @cache = Cache.new(outage: OUTAGE_TTL)
    end

    # The schema with this number.
    #   registry.schema(7).name # => "shop.Order"
    #: (Integer) -> Schema
    def schema(id) = fetch([:id, id], nil) { @source.schema(id) }

    # The schema with this GUID, as the header `__value_schema_id` names it. Only some servers support it: Confluent
    # from 8.x, Redpanda from 26.3. Karapace and Apicurio do not yet.
    #   registry.guid("00000000-0000-0000-0000-000000000007")
    #: (String) -> Schema
    def guid(text) = fetch([:guid, text], nil) { @source.guid(text) }

    # The schema with this fingerprint (Avro's single-object encoding). Works with Registry.files only.
    #   Pelton::Registry.files("schemas").fingerprint(schema.fingerprint)
    #: (Integer) -> Schema
    def fingerprint(number) = fetch([:fingerprint, number], nil) { @source.fingerprint(number) }

    # The newest schema of a subject, at most `ttl` seconds old. To get a newer one than the last known, it waits up to
    # 1 s. If the registry does not answer by then, it returns the last known one.
    #   registry.latest("orders-value").id # => 7
    #: (String) -> Schema
    def latest(subject) = fetch([:latest, subject], @ttl) { @source.version(subject, "latest") }

    # One version of a subject.
    #   registry.version("orders-value", 3)
    #: (String, Integer) -> Schema
    def version(subject, number) = fetch([:version, subject, number], nil) { @source.version(subject, number) }

    # The number of this schema in the subject. Raises RegistryError, with `missing?`, if it is not registered.
    #   registry.id_of("orders-value", schema) # => 7
    # Of a schema with references, it first asks for each version in `named`, once. Raises RegistryError if a type of
    # `references` is another one there.
    #: (String, Schema) -> Integer
    def id_of(subject, schema)
      fetch([:id_of, subject, schema.key], nil) { checked(subject, schema) { @source.id_of(subject, schema) } }
    end

    # The version of this schema in the subject: 1, 2, 3. It belongs into `named` of the schemas that refer to it.
    # Raises RegistryError, with `missing?`, if it is not registered, and as `id_of` for references.
    #   registry.version_of("shop.Price-value", price) # => 1
    #: (String, Schema) -> Integer
    def version_of(subject, schema)
      fetch([:version_of, subject, schema.key], nil) do
        checked(subject, schema) { @source.version_of(subject, schema) }
      end
    end

    # Registers the schema in the subject and returns its number. Doing it again, or in several processes at once, is
    # harmless. Raises RegistryError if the registry refuses it, for example as incompatible, and as `id_of` for
    # references.
    #   registry.register("orders-value", Pelton::Registry::Schema.new(File.read("order.avsc"))) # => 7
    #: (String, Schema) -> Integer
    def register(subject, schema)
      fetch([:register, subject, schema.key], nil) { checked(subject, schema) { @source.register(subject, schema) } }
    end

    # Would the registry accept the schema as the subject's next version? It compares it with the latest version, by the
    # compatibility mode of the subject, and registers nothing. A subject without a version accepts any schema. For CI:
    #   registry.compatible?("orders-value", Pelton::Registry::Schema.new(File.read("order.avsc"))) # => true
    # Asks each time. With a mode such as BACKWARD_TRANSITIVE, Confluent's registry compares with all versions only when
    # it registers. Raises RegistryError if the registry does not answer or refuses the request, and for a folder.
    # A schema with references needs no `named` here: then the registry gets one text with all types, so it need not
    # have them yet. With `named`, it raises as `id_of`.
    #: (String, Schema) -> bool
    def compatible?(subject, schema)
      return @source.compatible?(subject, Inlined.of(schema)) if schema.named.empty?

      checked(subject, schema) { @source.compatible?(subject, schema) }
    end

    # The addresses, without passwords and tokens.
    def inspect = "#<#{self.class} #{@source.inspect}>"
    alias to_s inspect

    private

    def fetch(key, ttl, &look_up)
      @cache.fetch(key, ttl, ->(error) { error.missing? ? @missing_ttl : FAILED_TTL }, &look_up)
    end

    # A folder compares the types themselves.
    def checked(subject, schema)
      unless schema.references.empty? || @source.is_a?(Files)
        NamedTypes.new(subject, schema).check { |*place| version(*place) }
      end
      yield
    end

    def seconds(name, value)
      return value if value.is_a?(Numeric) && value.real? && value >= 0 && value.to_f.finite?

      raise ConfigError.new("registry #{name}", value, "expected a number of seconds >= 0")
    end
  end
end
