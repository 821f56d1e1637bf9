# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Schedule
    # One message that waits for its time. In the schedule topic it is a record: the key is the id, the value is the
    # payload, and headers have the rest. Frozen.
    #   Pelton.schedule.find(id).at # => 2026-11-24 03:00:00 +0000
    class ScheduledMessage
      # The start of the names of headers that only records have, and of those that sent messages have.
      PREFIX = "pelton-schedule-"
      SENT = "pelton-scheduled-"
      # Times further away than this are mistakes, such as milliseconds.
      FARTHEST = 10 * 366 * 86_400
      # The largest time that Index can keep.
      LAST = (2**63) - 1
      TIME = "a Time, at most 10 years ahead"
      SECONDS = "a number of seconds, 0 to 10 years"
      private_constant :FARTHEST, :LAST, :TIME, :SECONDS

      # id: its name in the schedule. at_ms: when it is due, in milliseconds since 1970. topic, payload, key, headers,
      # partition, partition_key: of the message. offset, schedule_partition: where its record is. moved: the offset of
      # the record that a reschedule replaced; nil: it was not rescheduled. recurring: "every 3600" or
      # "cron UTC 0 3 * * *"; nil: it is sent once. last: when the recurring message was sent last, in
      # milliseconds since 1970.
      attr_reader :id, :at_ms, :topic, :payload, :key, :headers, :partition, :partition_key, :offset,
                  :schedule_partition, :moved, :recurring, :last

      # The due time in milliseconds since 1970, from `at` or `in`. Raises InvalidMessageError.
      #   ScheduledMessage.due(nil, 60) # => 1795471260000
      #: (untyped, untyped) -> Integer
      def self.due(time, seconds)
        return due_at(time) if seconds.nil?
        raise InvalidMessageError.new(:at, time, "nil: `in` is given") unless time.nil?

        fits = seconds.is_a?(Numeric) && seconds.real? && seconds.to_f.finite? && seconds.to_f.between?(0, FARTHEST)
        raise InvalidMessageError.new(:in, seconds, SECONDS) unless fits

        ((Clock.wall + seconds.to_f) * 1000).ceil
      end

      def self.due_at(time)
        time = time.to_time if !time.is_a?(Time) && time.respond_to?(:to_time) && time.respond_to?(:strftime)
        fits = time.is_a?(Time) && time.to_f.positive? && time.to_f < Clock.wall + FARTHEST
        raise InvalidMessageError.new(:at, time, TIME) unless fits

        (time.to_r * 1000).ceil
      end
      private_class_method :due_at

      # For Pelton: the entry of a record; nil: the record is none.
      #: (Message) -> ScheduledMessage?
      def self.read(message)
        own, headers = message.raw_headers.partition { |name, _| name.start_with?(PREFIX) }.map(&:to_h)
        names = %w[at topic partition moved last].map { |name| PREFIX + name }
        at, topic, partition, moved, last = own.values_at(*names)
        return unless message.raw_key && topic && own.each_value.all?(String) && (at = read_time(at))

        new(id: message.raw_key, at_ms: at, topic: topic, payload: own["#{PREFIX}empty"] ? nil : message.raw_payload,
            key: own["#{PREFIX}key"], headers: headers, partition: partition&.to_i,
            partition_key: own["#{PREFIX}partition-key"], offset: message.offset, schedule_partition: message.partition,
            moved: moved&.to_i, recurring: own["#{PREFIX}recurring"], last: last&.to_i)
      end

      def self.read_time(text)
        time = Integer(text.to_s, 10, exception: false)
        time if time&.between?(0, LAST)
      end
      private_class_method :read_time

      #: (id: String, at_ms: Integer, topic: String, payload: String?, ?key: String?,
      #:  ?headers: Hash[String, untyped]?, ?partition: Integer?, ?partition_key: String?, ?offset: Integer?,
      #:  ?schedule_partition: Integer?, ?moved: Integer?, ?recurring: String?, ?last: Integer?) -> void
      def initialize(id:, at_ms:, topic:, payload:, key: nil, headers: nil, partition: nil, partition_key: nil,
                     offset: nil, schedule_partition: nil, moved: nil, recurring: nil, last: nil)
        @id = id
        @at_ms = at_ms
        @topic = topic
        @payload = payload
        @key = key
        @headers = headers || {}
        @partition = partition
        @partition_key = partition_key
        @offset = offset
        @schedule_partition = schedule_partition
        @moved = moved
        @recurring = recurring
        @last = last
        freeze
      end

      # When it is due.
      #   entry.at # => 2026-11-24 03:00:00 +0000
      #: () -> Time
      def at = Time.at(@at_ms / 1000, @at_ms % 1000, :millisecond)

      # All its values.
      #   entry.to_h # => { id: "reminder-7", at_ms: 1795471260000, topic: "mails", … }
      #: () -> Hash[Symbol, untyped]
      def to_h
        { id: @id, at_ms: @at_ms, topic: @topic, payload: @payload, key: @key, headers: @headers,
          partition: @partition, partition_key: @partition_key, offset: @offset,
          schedule_partition: @schedule_partition, moved: @moved, recurring: @recurring, last: @last }
      end

      # For Pelton: a copy with some other values.
      #: (**untyped) -> ScheduledMessage
      def with(**changes) = ScheduledMessage.new(**to_h, **changes)

      # For Pelton: its record for partition `schedule_partition` of the schedule topic, as a message to produce.
      #: (String) -> Hash[Symbol, untyped]
      def record(topic)
        own = { "at" => @at_ms.to_s, "topic" => @topic, "key" => @key, "partition" => @partition&.to_s,
                "partition-key" => @partition_key, "empty" => (@payload.nil? ? "1" : nil), "moved" => @moved&.to_s,
                "recurring" => @recurring, "last" => @last&.to_s }
        { topic: topic, partition: @schedule_partition, key: @id, payload: @payload || "",
          headers: { **@headers, **own.compact.transform_keys { |name| PREFIX + name } } }
      end

      # For Pelton: the message that is sent when it is due.
      #: () -> Hash[Symbol, untyped]
      def message
        headers = { **@headers, "#{SENT}id" => @id, "#{SENT}at" => @at_ms.to_s }
        { topic: @topic, payload: @payload, key: @key, headers: headers, partition: @partition,
          partition_key: @partition_key }.compact.merge(payload: @payload)
      end

      # For Pelton: the record that ends it. A reader of the schedule topic sees which record was sent.
      #: (String) -> Hash[Symbol, untyped]
      def tombstone(topic)
        { topic: topic, partition: @schedule_partition, key: @id, payload: nil,
          headers: { "#{PREFIX}sent" => @offset.to_s } }
      end

      # Its id, topic and time, but never its payload, which may be private.
      def inspect = "#<#{self.class} #{@id} #{@topic} at #{at.utc}>"
    end
  end
end
