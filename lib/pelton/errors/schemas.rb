# frozen_string_literal: true

# The errors of schemas and their registries: part of errors.rb, which loads it.
module Pelton
  # The schema that a payload was written with could not be had: the registry does not answer (then a later attempt may
  # succeed) or does not know it. `cause` is the RegistryError.
  class SchemaUnavailable < DecodeError
    # A message does not keep it: the next read asks once more.
    undef_method :again

    # Does the registry say that there is no such schema? Else it did not answer.
    #: () -> bool
    def missing? = cause.is_a?(RegistryError) && cause.missing?
  end

  # A value does not fit the schema it is to be written with; `reason` names the field.
  #   EncodeError.new("shop.Order", "lines[2].price: a String of 2 bytes is no double")
  class EncodeError < Error
    attr_reader :schema, :reason

    #: (?String?, ?String?) -> void
    def initialize(schema = nil, reason = nil)
      @schema = schema
      @reason = reason
      super("the value is no #{schema || "value of the schema"}#{": #{reason}" if reason}")
    end
  end

  # A schema registry refused, or did not answer.
  #   RegistryError.new("schema 7", "not found", status: 404, code: 40_403)
  class RegistryError < Error
    # What was asked for; HTTP's status (nil: no answer); the registry's own code, where it gave one.
    attr_reader :what, :status, :code

    #: (?String, ?String?, ?status: Integer?, ?code: Integer?) -> void
    def initialize(what = "schema", reason = nil, status: nil, code: nil)
      @what = what
      @status = status
      @code = code
      reason = Printable.line(reason, 500) if reason
      numbers = [("HTTP #{status}" if status), code].compact.join(", ")
      numbers = " (#{numbers})" unless numbers.empty?
      super("schema registry, #{Printable.line(what)}: #{reason || "no answer"}#{numbers}")
    end

    # Does the registry say that there is no such thing? (It may be there later.)
    #: () -> bool
    def missing? = status == 404
  end
end
