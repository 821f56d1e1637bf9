# frozen_string_literal: true

# Errors of decoding. errors.rb loads this file.
module Pelton
  # A payload, key or headers cannot be decoded as the route says. Raised where they are read.
  # What to do: Send the message to the dead letters, or correct `decode`. For its subclass SchemaUnavailable see there.
  # `excerpt` shows a part of the payload; the error's message does not, because payloads may be private.
  #   DecodeError.new("orders", 3, 1207, "no JSON")
  class DecodeError < Error
    # Bytes of an excerpt before and after the position.
    AROUND = 40
    private_constant :AROUND

    # attribute: :payload, :key or :headers, of the message. position: index of the wrong byte; length: bytes of the
    # document; both nil where the decoder does not report them.
    #: (position: Integer?, length: Integer?)
    attr_reader :topic, :partition, :offset, :attribute, :position, :length

    #: (?String?, ?Integer?, ?Integer?, ?String?, ?Symbol, ?position: Integer?, ?length: Integer?,
    #:  ?excerpt: String?) -> void
    def initialize(topic = nil, partition = nil, offset = nil, reason = nil, # rubocop:disable Metrics/ParameterLists
                   attribute = :payload, position: nil, length: nil, excerpt: nil)
      @topic = topic
      @partition = partition
      @offset = offset
      @attribute = attribute
      @position = position
      @length = length
      @excerpt = excerpt
      @reason = reason && Printable.line(reason, longest_reason).freeze
      source = topic ? "#{topic}/#{partition} offset #{offset}" : "document"
      super("#{source}: #{attribute} cannot be decoded#{": #{@reason}" if reason}#{where}")
    end

    # For Pelton: the error for a document that is wrong from this byte on (nil: unknown).
    #: (String?, Integer?, Integer?, String, String, Integer?) -> DecodeError
    def self.at(topic, partition, offset, reason, document, position)
      start = [(position || 0) - AROUND, 0].max
      new(topic, partition, offset, reason, position: position, length: document.bytesize,
                                            excerpt: document.byteslice(start, 2 * AROUND).b)
    end

    # Up to 80 bytes around the wrong byte, with control characters escaped, or the message of a deserializer's error;
    # nil: there is none. It may be private: do not log it by default.
    #   error.excerpt # => "{\"id\":7,}"
    #: () -> String?
    def excerpt = @excerpt && Printable.line(@excerpt)

    # For Pelton: the same error with the message's topic, partition and offset, if it has none yet (and if its class
    # has no constructor of its own).
    #: (String, Integer, Integer, Symbol) -> DecodeError
    def of(topic, partition, offset, attribute)
      return self if self.topic || self.class.instance_method(:initialize).owner != DecodeError

      self.class.new(topic, partition, offset, @reason, attribute, **position_details)
    end

    # For Pelton: a copy for the next read, which does not decode again. Without the cause, whose text may be the whole
    # document.
    #: () -> DecodeError
    def again = self.class.new(topic, partition, offset, @reason, attribute, **position_details)

    private

    # Characters. A decoder may put any text there.
    def longest_reason = 200

    def position_details = { position: @position, length: @length, excerpt: @excerpt }

    def where
      return unless @length

      @position ? " (byte #{@position} of #{@length})" : " (#{@length} bytes)"
    end
  end
end
