# frozen_string_literal: true

require_relative "../runtime/clock"

module Pelton
  # Where a message in a retry topic or in the dead letters was first, and why Pelton copied it. Message#origin reads it
  # from the message's headers. Frozen.
  #   letter.origin.topic # => "orders"
  # It has
  #   topic, partition, offset  where the message was first
  #   timestamp_ms              its timestamp there, in milliseconds since 1970
  #   group                     the consumer group in which it failed
  #   attempts                  how often it was tried, over all retry topics; 0 after a redrive
  #   error, error_message      class and message (first 1,000 bytes) of the last error; or nil and the `reason` of
  #                             dispatch_to_dead_letters
  #   backtrace                 of a dead letter: the first lines of the error's backtrace, an Array; nil: it has none
  #   failure_id                the same as in the events about the last failure
  #   failed_at, due_at         Times: the last failure; when the retry topic delivers it, or nil
  #   payload_omitted           why a dead letter has no payload: the name of the error, as "MSG_SIZE_TOO_LARGE"; the
  #                             payload is still at topic, partition, offset. nil: the letter has its payload
  #   redrives                  how often it was sent back from the dead letters; nil: never
  class Origin
    FIELDS = %i[topic partition offset timestamp_ms group attempts error error_message failure_id failed_at
                due_at payload_omitted backtrace redrives].freeze
    # {field => header}: a header's value is text, numbers in decimal digits, Times in milliseconds since 1970.
    HEADERS = FIELDS.to_h { |field| [field, -"pelton.#{field}"] }.freeze
    NUMBERS = %i[partition offset timestamp_ms attempts failed_at due_at redrives].freeze
    TIMES = %i[failed_at due_at].freeze
    # What a letter that is sent back keeps.
    PLACE = %i[topic partition offset timestamp_ms].freeze
    # Texts that an app may have to remove.
    TEXTS = %i[error_message backtrace].freeze
    ERROR_BYTES = 1_000
    # Most bytes of a backtrace, and of one of its lines.
    BACKTRACE_BYTES = 8_000
    LINE_BYTES = 1_000
    # The beginning of a line of Pelton's own code.
    OURS = File.join(File.dirname(__dir__), "").freeze
    AS_IT_IS = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].freeze
    private_constant :FIELDS, :NUMBERS, :TIMES, :PLACE, :TEXTS, :ERROR_BYTES, :BACKTRACE_BYTES, :LINE_BYTES, :OURS,
                     :AS_IT_IS

    #: (topic: String, partition: Integer, offset: Integer, timestamp_ms: Integer?, group: String?, attempts: Integer,
    #:  error: String?, error_message: String?, failure_id: String?, failed_at: Time?, due_at: Time?,
    #:  payload_omitted: String?, backtrace: Array[String]?, redrives: Integer?)
    attr_reader(*FIELDS)

    class << self
      # For Pelton: reads the headers of a message; nil: Pelton did not copy it.
      #: (Message) -> Origin?
      def of(message)
        headers = message.raw_headers # builds a Hash at each call
        fields = HEADERS.transform_values { |name| [*headers[name]].last }
        NUMBERS.each { |field| fields[field] &&= Integer(fields[field], 10, exception: false) }
        return unless fields.values_at(:topic, :partition, :offset, :attempts).all?

        TIMES.each { |field| fields[field] &&= time(fields[field]) }
        fields[:backtrace] &&= text(fields[:backtrace], BACKTRACE_BYTES).split("\n").freeze
        new(fields)
      end

      # For a message that failed now. first: its origin, if it was read from a retry topic or sent back to its topic.
      # backtrace: most lines.
      #: (untyped, group: String, first: Origin?, ?due_in: Numeric?, ?backtrace: Integer) -> Origin
      def after(failure, group:, first:, due_in: nil, backtrace: 0)
        now = (Clock.wall * 1000).floor
        message = first || failure.message
        error = failure.error
        new(topic: message.topic, partition: message.partition, offset: message.offset,
            timestamp_ms: message.timestamp_ms,
            group: group, attempts: failure.attempt, error: error.is_a?(Exception) ? text(error.class) : nil,
            error_message: error && text(error), failure_id: failure.id, failed_at: time(now),
            due_at: due_in && time(now + (due_in * 1000).ceil), redrives: first&.redrives,
            backtrace: lines(error, backtrace))
      end

      private

      # The text of an error or reason as valid UTF-8.
      def text(error, bytes = ERROR_BYTES)
        text = error.is_a?(Exception) ? error.message.to_s : error.to_s
        text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless AS_IT_IS.include?(text.encoding)
        text.byteslice(0, bytes).force_encoding(Encoding::UTF_8).scrub("?")
      rescue StandardError => e
        "(message cannot be read: #{e.class})"
      end

      # The first lines of an error's backtrace, without those of Pelton that called the consumer; nil: it has none.
      def lines(error, count)
        all = error.backtrace if count.positive? && error.is_a?(Exception)
        return unless all.is_a?(Array) && all.any?

        last = all.rindex { |line| !line.start_with?(OURS) } || -1
        left = BACKTRACE_BYTES
        texts = all[0..last].first(count).map { |line| text(line, LINE_BYTES).tr("\n", " ") }
        texts.take_while { |line| (left -= line.bytesize + 1) >= 0 }.freeze
      end

      def time(milliseconds) = Time.at(milliseconds / 1000, milliseconds % 1000, :millisecond)
    end

    #: (Hash[Symbol, untyped]) -> void
    def initialize(fields)
      fields.each { |field, value| instance_variable_set(:"@#{field}", value) }
      freeze
    end

    # For Pelton: true: this is the first place of a message that was sent back to its topic, from the dead letters.
    # false: its first place is not known.
    #: (Message) -> bool
    def first_of?(message) = topic == message.topic && payload_omitted.nil?

    # For a dead letter that is sent back: it keeps where the message was first, and nothing of the failure, so that its
    # attempts count from 1. group: the only group that gets it from a retry topic.
    #: (?group: String?) -> Origin
    def redriven(group: nil)
      place = PLACE.to_h { |field| [field, public_send(field)] }
      self.class.new({ **place, attempts: 0, redrives: redrives.to_i + 1, group: group })
    end

    # For a letter without payload. refusal: the error's name.
    #: (Symbol) -> Origin
    def without_payload(refusal)
      with(payload_omitted: refusal.to_s, error_message: error_message&.byteslice(0, 200)&.scrub("?"), backtrace: nil)
    end

    # For a letter that is too large with it.
    #: () -> Origin
    def without_backtrace = with(backtrace: nil)

    # For Pelton: the headers for a copy: the message's own, with these instead of older ones.
    #: (Hash[String, untyped]) -> Hash[String, untyped]
    def headers(others)
      ours = HEADERS.to_h { |field, name| [name, value(public_send(field))] }
      { **others.except(*ours.keys), **ours.compact }
    end

    # For Pelton: these headers, with what Pelton wrote into them, whatever was changed there. The texts of the error
    # may be private, so they stay as they are: changed, or removed.
    #: (Hash[String, untyped]) -> Hash[String, untyped]
    def restored(given)
      texts = HEADERS.values_at(*TEXTS)
      { **headers(given).except(*texts), **given.slice(*texts) }
    end

    def inspect = "#<#{self.class} #{topic}/#{partition} offset #{offset}, #{attempts} attempts, #{error}>"

    private

    def with(**changed) = self.class.new({ **FIELDS.to_h { |field| [field, public_send(field)] }, **changed })

    # A header's value.
    def value(field)
      case field
      when Time then (field.to_r * 1000).to_i.to_s
      when Array then field.join("\n")
      else field&.to_s
      end
    end
  end
end
