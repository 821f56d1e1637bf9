# frozen_string_literal: true

module Pelton
  # What a consumer works on: messages of one topic-partition in the order of their offsets. A Pelton::Batch as it came
  # from Kafka is one, a Pelton::Batch::Part (what is left of a batch) is another. Needs `messages`, `topic`,
  # `partition`, `size`, `first_offset` and `last_offset`; as long as only those sizes and offsets are asked, no message
  # object exists.
  module Messages
    include Enumerable

    #: def messages: () -> Array[Message]
    #: def topic: () -> String
    #: def partition: () -> Integer
    #: def size: () -> Integer
    #: def first_offset: () -> Integer?
    #: def last_offset: () -> Integer?
    #: def bytes: () -> Integer

    # In the order of offsets.
    #: () { (Message) -> void } -> self | () -> Enumerator[Message, self]
    def each(&block)
      return enum_for(:each) { size } unless block

      messages.each(&block)
      self
    end

    #: () -> bool
    def empty? = size.zero?
    #: (Integer) -> Message?
    def [](index) = messages[index]
    #: () -> Array[Message]
    def to_a = messages.dup
    #: (*Integer) -> (Message? | Array[Message])
    def first(*count) = messages.first(*count)
    #: (*Integer) -> (Message? | Array[Message])
    def last(*count) = messages.last(*count)

    # The decoded payloads; raises DecodeError at the first that cannot be decoded.
    #: () -> Array[untyped]
    def payloads = messages.map(&:payload)
    #: () -> Array[String?]
    def raw_payloads = messages.map(&:raw_payload)
    # As Message#key.
    #: () -> Array[untyped]
    def keys = messages.map(&:key)
    #: () -> Array[String?]
    def raw_keys = messages.map(&:raw_key)
    #: () -> [String, Integer]
    def topic_partition = [topic, partition]

    # The leader epoch of the last message, for marking; -1: unknown. (A native batch answers without building
    # messages.)
    #: () -> Integer
    def leader_epoch = last&.leader_epoch || -1

    # Of the first message, in milliseconds since 1970: when it was produced, and when it came to this process; -1:
    # unknown. (A native batch answers without building messages.)
    #: () -> Integer
    def timestamp_ms = first&.timestamp_ms || -1
    #: () -> Integer
    def received_ms = first&.received_ms || -1

    # The messages from this offset on, `limit` at most: itself if that is all of them.
    #: (Integer, Integer) -> Messages
    def from(offset, limit)
      return self if size <= limit && (empty? || offset <= first_offset)

      return Batch::Part.new(topic, partition, [].freeze) if empty? || offset > last_offset

      part = slice(offset, limit)
      last = part.empty? || part.last.equal?(messages.last) ? last_offset : part.last.offset
      Batch::Part.new(topic, partition, part.freeze, last)
    end

    # The messages up to this offset: itself if that is all of them.
    #: (Integer) -> Messages
    def upto(offset)
      return self if empty? || last_offset <= offset

      Batch::Part.new(topic, partition, messages.take_while { |one| one.offset <= offset }.freeze, offset)
    end

    # The same partition's, these alone: itself if that is all of them.
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
