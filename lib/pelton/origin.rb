# frozen_string_literal: true

module Pelton
  # Where a message in a retry topic or in the dead letters was first, and why Pelton copied it. Message#origin reads it
  # from the message's headers. Frozen.
  #   letter.origin.topic # => "orders"
  # It has
  #   topic, partition, offset  where the message was first
  #   timestamp_ms              its timestamp there, in milliseconds since 1970
  #   group                     the consumer group in which it failed
  #   attempts                  how often it was tried, over all retry topics
  #   error, error_message      class and message (first 1,000 bytes) of the last error; or nil and the `reason` of
  #                             dispatch_to_dead_letters
  #   failure_id                the same as in the events about the last failure
  #   failed_at, due_at         milliseconds since 1970: the last failure; when the retry topic delivers it, or nil
  #   payload_omitted           why a dead letter has no payload: the name of the error, as "MSG_SIZE_TOO_LARGE"; the
  #                             payload is still at topic, partition, offset. nil: the letter has its payload
  class Origin
    FIELDS = %i[topic partition offset timestamp_ms group attempts error error_message failure_id failed_at
                due_at payload_omitted].freeze
    # {field => header}: a header's value is text, numbers in decimal digits.
    HEADERS = FIELDS.to_h { |field| [field, -"pelton.#{field}"] }.freeze
    NUMBERS = %i[partition offset timestamp_ms attempts failed_at due_at].freeze
    ERROR_BYTES = 1_000
    AS_IT_IS = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].freeze
    private_constant :FIELDS, :NUMBERS, :ERROR_BYTES, :AS_IT_IS

    #: (topic: String, partition: Integer, offset: Integer, timestamp_ms: Integer?, group: String?, attempts: Integer,
    #:  error: String?, error_message: String?, failure_id: String?, failed_at: Integer?, due_at: Integer?,
    #:  payload_omitted: String?)
    attr_reader(*FIELDS)

    # Reads the headers of a message; nil: Pelton did not copy it.
    #: (Message) -> Origin?
    def self.of(message)
      headers = message.raw_headers # builds a Hash at each call
      fields = HEADERS.transform_values { |name| [*headers[name]].last }
      NUMBERS.each { |field| fields[field] &&= Integer(fields[field], 10, exception: false) }
      return unless fields.values_at(:topic, :partition, :offset, :attempts).all?

      new(fields)
    end

    # For a message that failed now. first: its origin, if it was read from a retry topic or sent back to its topic.
    #: (untyped, group: String, first: Origin?, ?due_in: Numeric?) -> Origin
    def self.after(failure, group:, first:, due_in: nil)
      now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
      place = first || failure.message
      error = failure.error
      new(topic: place.topic, partition: place.partition, offset: place.offset, timestamp_ms: place.timestamp_ms,
          group: group, attempts: failure.attempt, error: error.is_a?(Exception) ? text(error.class) : nil,
          error_message: error && text(error), failure_id: failure.id, failed_at: now,
          due_at: due_in && (now + (due_in * 1000).ceil))
    end

    # The text of an error or reason as valid UTF-8.
    def self.text(error)
      text = error.is_a?(Exception) ? error.message.to_s : error.to_s
      text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless AS_IT_IS.include?(text.encoding)
      text.byteslice(0, ERROR_BYTES).force_encoding(Encoding::UTF_8).scrub("?")
    rescue StandardError => e
      "(message cannot be read: #{e.class})"
    end
    private_class_method :text

    #: (Hash[Symbol, untyped]) -> void
    def initialize(fields)
      fields.each { |field, value| instance_variable_set(:"@#{field}", value) }
      freeze
    end

    # The first place of a message that was sent back to its topic, from the dead letters; nil: it is not known. The
    # timestamp is the message's own, because Kafka deletes by age.
    #: (Message) -> Origin?
    def replayed(message)
      return if topic != message.topic || payload_omitted

      self.class.new({ **FIELDS.to_h { |field| [field, public_send(field)] }, timestamp_ms: message.timestamp_ms })
    end

    # For a letter without payload. refusal: the error's name.
    #: (Symbol) -> Origin
    def without_payload(refusal)
      fields = FIELDS.to_h { |field| [field, public_send(field)] }
      text = error_message&.byteslice(0, 200)&.scrub("?")
      self.class.new({ **fields, payload_omitted: refusal.to_s, error_message: text })
    end

    # The headers for a copy: the message's own, with these instead of older ones.
    #: (Hash[String, untyped]) -> Hash[String, untyped]
    def headers(others)
      ours = HEADERS.to_h { |field, name| [name, public_send(field)&.to_s] }
      { **others.except(*ours.keys), **ours.compact }
    end

    def inspect = "#<#{self.class} #{topic}/#{partition} offset #{offset}, #{attempts} attempts, #{error}>"
  end
end
