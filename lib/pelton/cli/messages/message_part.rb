# frozen_string_literal: true

require_relative "plain"

module Pelton
  class CLI
    # The key or the payload of a message: its bytes, and what they were decoded to.
    #   MessagePart.new("{ }", value: {}).fields("payload") # => {"payload" => {}, "payload_text" => "{ }"}
    #   MessagePart.new("\xFF".b).fields("key")             # => {"key_base64" => "/w=="}
    class MessagePart
      UNDECODED = Object.new.freeze
      private_constant :UNDECODED

      # Why the bytes are not decoded; nil: they are, or no one asked for it.
      #: String?
      attr_reader :error

      # bytes: nil for a tombstone, or without a key. value: what the bytes stand for.
      #: (String?, ?value: untyped, ?error: String?) -> void
      def initialize(bytes, value: UNDECODED, error: nil)
        @bytes = bytes
        @value = value.equal?(UNDECODED) || bytes.nil? ? UNDECODED : Plain.of(value)
        @error = error
      end

      # Fields of JSON from which the bytes can be made again.
      #: (String) -> Hash[String, untyped]
      def fields(name)
        return { name => nil } if @bytes.nil?
        return { name => shown } if shown && Plain.bytes(shown) == @bytes.b

        decoded? ? { name => @value, **exact(name) } : exact(name)
      end

      # The plain value, or the text of bytes that were not decoded; nil if they are not UTF-8, or for a tombstone.
      #: () -> untyped
      def shown = decoded? ? @value : (@bytes && Plain.utf8(@bytes))

      # The part on a line of its own: a String as it is, another value as JSON, "null" for a tombstone.
      #: () -> String
      def line
        return @bytes || "null" unless decoded?

        @value.is_a?(String) ? @value : Plain.json(@value)
      end

      #: () -> bool
      def tombstone? = @bytes.nil?

      #: () -> bool
      def decoded? = !@value.equal?(UNDECODED)

      private

      def exact(name)
        text = Plain.utf8(@bytes)
        text ? { "#{name}_text" => text } : { "#{name}_base64" => [@bytes].pack("m0") }
      end
    end
  end
end
