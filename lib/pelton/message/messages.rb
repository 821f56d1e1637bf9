# frozen_string_literal: true

module Pelton
  # The messages of one `consume` call: of one partition, in the order of their offsets. Included in Pelton::Batch (as
  # it came from Kafka) and Pelton::Batch::Part (the rest of a batch). Any thread may read them.
  #   messages.each { |message| Order.create!(message.payload) }
  # `size`, `first_offset` and `last_offset` build no message objects.
  module Messages
    include Enumerable

    # @!method messages
    #   The messages, in the order of offsets. Builds their objects at the first call.
    #     messages.messages.size # => 100
    #: def messages: () -> Array[Message]

    # @!method topic
    #   The topic of all messages.
    #     messages.topic # => "orders"
    #: def topic: () -> String

    # @!method partition
    #   The partition of all messages.
    #     messages.partition # => 3
    #: def partition: () -> Integer

    # @!method size
    #   Number of messages.
    #     messages.size # => 100
    #: def size: () -> Integer

    # @!method first_offset
    #   The offset of the first message; nil if there is none.
    #     messages.first_offset # => 42
    #: def first_offset: () -> Integer?

    # @!method last_offset
    #   The offset up to which the messages reach. It is larger than that of the last message if a `where` dropped
    #   messages after it.
    #     messages.last_offset # => 141
    #: def last_offset: () -> Integer?

    # @!method bytes
    #   Bytes of a whole batch: payloads, keys and headers. Of a part of it: payloads only.
    #     messages.bytes # => 12800
    #: def bytes: () -> Integer

    # Yields each message, in the order of offsets.
    #   messages.each { |message| puts message.key }
    #: () { (Message) -> void } -> self | () -> Enumerator[Message, self]
    def each(&block)
      return enum_for(:each) { size } unless block

      messages.each(&block)
      self
    end

    # Is there no message?
    #   messages.empty? # => false
    #: () -> bool
    def empty? = size.zero?
    # The message at this position, from 0; nil if there is none.
    #   messages[0].offset # => 42
    #: (Integer) -> Message?
    def [](index) = messages[index]
    # A new Array of the messages.
    #   messages.to_a.shuffle
    #: () -> Array[Message]
    def to_a = messages.dup
    # The first message, or an Array of the first `count`.
    #   messages.first.offset # => 42
    #: (*Integer) -> (Message? | Array[Message])
    def first(*count) = messages.first(*count)
    # The last message, or an Array of the last `count`.
    #   mark_as_consumed(messages.last)
    #: (*Integer) -> (Message? | Array[Message])
    def last(*count) = messages.last(*count)

    # The decoded payloads. Raises DecodeError at the first one that cannot be decoded.
    #   Order.insert_all(messages.payloads)
    #: () -> Array[untyped]
    def payloads = messages.map(&:payload)
    # The payloads' bytes as they came from Kafka; nil for tombstones.
    #   messages.raw_payloads # => ["{\"total\":12.5}"]
    #: () -> Array[String?]
    def raw_payloads = messages.map(&:raw_payload)
    # The keys, as Message#key returns them.
    #   messages.keys # => ["7", "8"]
    #: () -> Array[untyped]
    def keys = messages.map(&:key)
    # The keys' bytes as they came from Kafka.
    #   messages.raw_keys # => ["7", nil]
    #: () -> Array[String?]
    def raw_keys = messages.map(&:raw_key)
    # The topic and partition of all messages.
    #   messages.topic_partition # => ["orders", 3]
    #: () -> [String, Integer]
    def topic_partition = [topic, partition]

    # For marking: the leader epoch of the last message; -1: unknown. (A native batch builds no messages for it.)
    #   messages.leader_epoch # => 7
    #: () -> Integer
    def leader_epoch = last&.leader_epoch || -1

    # When the first message was produced, in milliseconds since 1970; -1: unknown. (A native batch builds no messages
    # for it.)
    #   messages.timestamp_ms # => 1795471260000
    #: () -> Integer
    def timestamp_ms = first&.timestamp_ms || -1
    # When the first message came to this process, in milliseconds since 1970; -1: unknown.
    #   messages.received_ms # => 1795471260042
    #: () -> Integer
    def received_ms = first&.received_ms || -1

    # For Pelton: the messages from this offset on, at most `limit`; itself if that is all of them.
    #: (Integer, Integer) -> Messages
    def from(offset, limit)
      return self if size <= limit && (empty? || offset <= first_offset)

      return Batch::Part.new(topic, partition, [].freeze) if empty? || offset > last_offset

      part = slice(offset, limit)
      last = part.empty? || part.last.equal?(messages.last) ? last_offset : part.last.offset
      Batch::Part.new(topic, partition, part.freeze, last)
    end

    # For Pelton: the messages up to this offset; itself if that is all of them.
    #: (Integer) -> Messages
    def upto(offset)
      return self if empty? || last_offset <= offset

      Batch::Part.new(topic, partition, messages.take_while { |message| message.offset <= offset }.freeze, offset)
    end

    # For Pelton: only these messages; itself if that is all of them.
    #: (Array[Message]) -> Messages
    def only(list) = list.size == size ? self : Batch::Part.new(topic, partition, list.freeze)

    def inspect
      offsets = ", offsets #{first_offset}..#{last_offset}" unless empty?
      "#<#{self.class} #{topic}/#{partition} #{size} message#{"s" if size != 1}#{offsets}, #{bytes} bytes>"
    end
    alias to_s inspect

    private

    def slice(offset, limit)
      first = messages.bsearch_index { |message| message.offset >= offset }
      first ? messages[first, limit] : []
    end
  end
end
