# frozen_string_literal: true

# Errors of schemas and schema registries. errors.rb loads this file.
module Pelton
  # The schema of a payload could not be loaded: the registry does not answer, refuses the request, or does not know the
  # schema (then `missing?` is true). `cause` is the RegistryError.
  # What to do: If `missing?`, register the schema. If `cause.status` is 401 or 403, correct the password or the rights.
  # Otherwise a retry may succeed.
  class SchemaUnavailable < DecodeError
    # A message does not keep this error: the next read asks the registry again.
    undef_method :again

    # true: the registry has no such schema; false: it did not answer, or refused the request.
    #   error.missing? # => false
    #: () -> bool
    def missing? = cause.is_a?(RegistryError) && cause.missing?

    private

    # The message of a RegistryError, which limits what the registry said, and ends with its status and URL.
    def longest_reason = 1000
  end

  # A value does not fit the schema that it should be encoded with.
  # What to do: `reason` names the field; correct the value or the schema.
  #   EncodeError.new("shop.Order", "lines[2].price: expected double, got a String of 2 bytes")
  class EncodeError < Error
    attr_reader :schema, :reason

    #: (?String?, ?String?) -> void
    def initialize(schema = nil, reason = nil)
      @schema = schema
      @reason = reason
      super("the value does not fit #{schema || "the schema"}#{": #{reason}" if reason}")
    end
  end

  # A schema registry refused a request, or did not answer. `missing?` is true if it answered that it has no such
  # schema, subject or version.
  # What to do: If `missing?`, register the schema. Otherwise check its URL, its credentials and `status`. Without a
  # status, retry later.
  #   RegistryError.new("schema 7", "not found", status: 404, code: 40_403)
  class RegistryError < Error
    NOT_FOUND = 40_401..40_403
    private_constant :NOT_FOUND

    # what: the request; status: of HTTP, nil without an answer; code: the registry's own, or nil; url: who answered,
    # without a login, or nil.
    attr_reader :what, :status, :code, :url

    #: (?String, ?String?, ?status: Integer?, ?code: Integer?, ?url: String?) -> void
    def initialize(what = "schema", reason = nil, status: nil, code: nil, url: nil)
      @what = what
      @status = status
      @code = code
      @url = url
      reason = Printable.line(reason, 500) if reason
      numbers = [("HTTP #{status}" if status), code].compact.join(", ")
      numbers = " (#{numbers})" unless numbers.empty?
      from = ", from #{Printable.line(url)}" if url
      super("schema registry, #{Printable.line(what)}: #{reason || "no answer"}#{numbers}#{from}")
    end

    # true: the registry answered that it does not exist, with code 40401, 40402 or 40403 as Confluent documents them.
    # (It may exist later.) Any other HTTP 404, as of a proxy or for a wrong URL, says nothing about the schema.
    #   error.missing? # => true
    #: () -> bool
    def missing? = status == 404 && NOT_FOUND.cover?(code)
  end
end
