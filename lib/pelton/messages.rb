# frozen_string_literal: true

module Pelton
  # The messages of one `consume` call: of one partition, in the order of their offsets. Included in Pelton::Batch (as
  # it came from Kafka) and Pelton::Batch::Part (the rest of a batch). Any thread may read them.
  #   messages.each { |message| Order.create!(message.payload) }
  # `size`, `first_offset` and `last_offset` build no message objects.
  module Messages
    include Enumerable

    #: def messages: () -> Array[Message]
    #: def topic: () -> String
    #: def partition: () -> Integer
    #: def size: () -> Integer
    #: def first_offset: () -> Integer?
    #: def last_offset: () -> Integer?
    #: def bytes: () -> Integer

    # Yields each message, in the order of offsets.
    #   messages.each { |message| puts message.key }
    #: () { (Message) -> void } -> self | () -> Enumerator[Message, self]
    def each(&block)
      return enum_for(:each) { size } unless block

      messages.each(&block)
      self
    end

    # true: there is no message.
    #: () -> bool
    def empty? = size.zero?
    # The message at this position, from 0.
    #: (Integer) -> Message?
    def [](index) = messages[index]
    #: () -> Array[Message]
    def to_a = messages.dup
    #: (*Integer) -> (Message? | Array[Message])
    def first(*count) = messages.first(*count)
    #: (*Integer) -> (Message? | Array[Message])
    def last(*count) = messages.last(*count)

    # The decoded payloads. Raises DecodeError at the first one that cannot be decoded.
    #   Order.insert_all(messages.payloads)
    #: () -> Array[untyped]
    def payloads = messages.map(&:payload)
    #: () -> Array[String?]
    def raw_payloads = messages.map(&:raw_payload)
    # The keys, as Message#key returns them.
    #: () -> Array[untyped]
    def keys = messages.map(&:key)
    #: () -> Array[String?]
    def raw_keys = messages.map(&:raw_key)
    #: () -> [String, Integer]
    def topic_partition = [topic, partition]

    # The leader epoch of the last message, for marking; -1: unknown. (A native batch builds no messages for it.)
    #: () -> Integer
    def leader_epoch = last&.leader_epoch || -1

    # When the first message was produced, and when it came to this process, in milliseconds since 1970; -1: unknown. (A
    # native batch builds no messages for it.)
    #: () -> Integer
    def timestamp_ms = first&.timestamp_ms || -1
    #: () -> Integer
    def received_ms = first&.received_ms || -1

    # The messages from this offset on, at most `limit`; itself if that is all of them.
    #: (Integer, Integer) -> Messages
    def from(offset, limit)
      return self if size <= limit && (empty? || offset <= first_offset)

      return Batch::Part.new(topic, partition, [].freeze) if empty? || offset > last_offset

      part = slice(offset, limit)
      last = part.empty? || part.last.equal?(messages.last) ? last_offset : part.last.offset
      Batch::Part.new(topic, partition, part.freeze, last)
    end

    # The messages up to this offset; itself if that is all of them.
    #: (Integer) -> Messages
    def upto(offset)
      return self if empty? || last_offset <= offset

      Batch::Part.new(topic, partition, messages.take_while { |one| one.offset <= offset }.freeze, offset)
    end

    # Only these messages; itself if that is all of them.
    #: (Array[Message]) -> Messages
    def only(list) = list.size == size ? self : Batch::Part.new(topic, partition, list.freeze)

    def inspect
      offsets = ", offsets #{first_offset}..#{last_offset}" unless empty?
      "#<#{self.class} #{topic}/#{partition} #{size} messages#{offsets}>"
    end
    alias to_s inspect

    private

    def slice(offset, limit)
      first = messages.bsearch_index { |message| message.offset >= offset }
      first ? messages[first, limit] : []
    end
  end
end
