# frozen_string_literal: true

require_relative "errors"
require_relative "registry/cache"
require_relative "registry/files"
require_relative "registry/http"
require_relative "registry/schema"

module Pelton
  # A schema registry that speaks Confluent's protocol (Confluent's own, Karapace, Apicurio, Redpanda), with a cache.
  #   registry = Pelton::Registry.new("https://one:8081", "https://two:8081", user: "billing", password: "…")
  #   registry.schema(7).text           # => "{\"type\":\"record\",…}"
  #   registry.latest("orders-value").id # => 7
  # Schemas by id never change and are asked for once; what a subject's latest is, every `ttl` seconds. What is not
  # there is not asked for again for `missing_ttl` seconds. Many threads that want the same share one request. With
  # several URLs, the next one is asked when one does not answer; `retries` more rounds wait in between (`backoff`,
  # seconds). All methods may be called from any thread; they wait for the network, interruptibly, and raise
  # RegistryError. Nothing happens before the first call. Offline, from a folder: Registry.files("schemas").
  class Registry
    # Of requests that failed, so that a thousand messages do not wait for the same timeout one after the other.
    FAILED_TTL = 1
    private_constant :FAILED_TTL

    # Schemas from a folder's files: see Registry::Files.
    #: (String) -> Registry
    def self.files(folder) = new(source: Files.new(folder))

    # token: bearer, in place of user and password (which a URL may bring, too). tls: ca_file, crl_file (revoked
    # certificates), cert_file, key_file, key_password, verify (true). timeout, open_timeout: of one request. Raises
    # ConfigError.
    #: (*String, ?user: String?, ?password: String?, ?token: String?, ?tls: Hash[Symbol, untyped], ?timeout: Numeric,
    #:  ?open_timeout: Numeric, ?retries: Integer, ?backoff: Range[Numeric], ?ttl: Numeric, ?missing_ttl: Numeric,
    #:  ?source: untyped) -> void
    def initialize(*urls, source: nil, ttl: 300, missing_ttl: 30, **options)
      @source = source || Http.new(urls, **options)
      @ttl = seconds(:ttl, ttl)
      @missing_ttl = seconds(:missing_ttl, missing_ttl)
      @cache = Cache.new
    end

    # The schema with this number.
    #: (Integer) -> Schema
    def schema(id) = fetch([:id, id], nil) { @source.schema(id) }

    # The schema with this GUID, "8-4-4-4-12" digits, which headers tell: from a server only (Confluent's of 8.x,
    # Redpanda's from 26.3 on; Karapace and Apicurio have none yet).
    #: (String) -> Schema
    def guid(text) = fetch([:guid, text], nil) { @source.guid(text) }

    # The schema with this fingerprint (single-object encoding): among files only.
    #: (Integer) -> Schema
    def fingerprint(number) = fetch([:fingerprint, number], nil) { @source.fingerprint(number) }

    # A subject's newest schema; the last one known, while nobody answers.
    #: (String) -> Schema
    def latest(subject) = fetch([:latest, subject], @ttl) { @source.version(subject, "latest") }

    # One of its versions.
    #: (String, Integer) -> Schema
    def version(subject, number) = fetch([:version, subject, number], nil) { @source.version(subject, number) }

    # The number that this schema has in the subject; RegistryError#missing? where it was never registered.
    #: (String, Schema) -> Integer
    def id_of(subject, schema)
      fetch([:id_of, subject, schema.text], nil) { @source.id_of(subject, schema) }
    end

    # Registers it (once more is harmless) and returns its number. The registry may refuse it as incompatible.
    #: (String, Schema) -> Integer
    def register(subject, schema)
      fetch([:register, subject, schema.text], nil) { @source.register(subject, schema) }
    end

    # What it is, never with a password or token.
    def inspect = "#<#{self.class} #{@source.inspect}>"
    alias to_s inspect

    private

    def fetch(key, ttl, &look_up)
      @cache.fetch(key, ttl, ->(error) { error.missing? ? @missing_ttl : FAILED_TTL }, &look_up)
    end

    def seconds(name, value)
      return value if value.is_a?(Numeric) && value.real? && value >= 0 && value.to_f.finite?

      raise ConfigError.new("registry #{name}", value, "expected a number of seconds >= 0")
    end
  end
end
