# frozen_string_literal: true

# What cannot be decoded: part of errors.rb, which loads it.
module Pelton
  # A payload (or a key, or headers) is not what the topic's decoder expects. The message says where and how long it is,
  # and shows nothing of it: payloads may be private, errors are logged. `excerpt` shows a part.
  #   DecodeError.new("orders", 3, 1207, "no JSON")
  class DecodeError < Error
    # Bytes of an excerpt before and behind the position.
    AROUND = 40
    private_constant :AROUND

    # part: :payload, :key or :headers. position: of the byte that is wrong; length: bytes of the document; nil where
    # the decoder does not say so.
    #: (position: Integer?, length: Integer?)
    attr_reader :topic, :partition, :offset, :part, :position, :length

    #: (?String?, ?Integer?, ?Integer?, ?String?, ?Symbol, ?position: Integer?, ?length: Integer?,
    #:  ?excerpt: String?) -> void
    def initialize(topic = nil, partition = nil, offset = nil, reason = nil, # rubocop:disable Metrics/ParameterLists
                   part = :payload, position: nil, length: nil, excerpt: nil)
      @topic = topic
      @partition = partition
      @offset = offset
      @part = part
      @position = position
      @length = length
      @excerpt = excerpt
      @reason = reason && Printable.line(reason, 200).freeze
      place = topic ? "#{topic}/#{partition} offset #{offset}" : "document"
      super("#{place}: #{part} cannot be decoded#{": #{@reason}" if reason}#{where}")
    end

    # Of a document that is wrong from this byte on (nil: nobody knows).
    #: (String?, Integer?, Integer?, String, String, Integer?) -> DecodeError
    def self.at(topic, partition, offset, reason, document, position)
      start = [(position || 0) - AROUND, 0].max
      new(topic, partition, offset, reason, position: position, length: document.bytesize,
                                            excerpt: document.byteslice(start, 2 * AROUND).b)
    end

    # A part of what cannot be decoded, with control characters escaped, or what a deserializer's error says; nil: there
    # is none. It may be private: do not log it by default.
    #: () -> String?
    def excerpt = @excerpt && Printable.line(@excerpt)

    # The same of this part of a message, where it does not say of which one it is (and is made as this class is).
    #: (String, Integer, Integer, Symbol) -> DecodeError
    def of(topic, partition, offset, part)
      return self if self.topic || self.class.instance_method(:initialize).owner != DecodeError

      self.class.new(topic, partition, offset, @reason, part, **facts)
    end

    # The same for the next read: nothing is decoded anew. Without the cause, whose text may be the whole document.
    #: () -> DecodeError
    def again = self.class.new(topic, partition, offset, @reason, part, **facts)

    private

    def facts = { position: @position, length: @length, excerpt: @excerpt }

    def where
      return unless @length

      @position ? " (byte #{@position} of #{@length})" : " (#{@length} bytes)"
    end
  end
end
