# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../settings/settings"
require_relative "recurrence"
require_relative "scheduled_message"

module Pelton
  class Schedule
    # A recurring message as routes declare it: `recurring "cleanup", cron: "0 3 * * *", topic: "jobs", payload: "{}"`.
    # In the schedule it is one entry: the next time. With the message, the transaction that sends it writes the time
    # after that. Frozen.
    class Recurring
      # The start of the ids of all recurring messages.
      ID = "@recurring/"
      WORDS = %i[key headers partition].freeze
      private_constant :WORDS

      #: () -> String
      attr_reader :name

      # Raises ConfigError.
      #: (untyped, topic: untyped, payload: untyped, ?every: untyped, ?cron: untyped, ?zone: untyped, **untyped) -> void
      def initialize(name, topic:, payload:, every: nil, cron: nil, zone: nil, **message)
        @name = checked("recurring", name)
        @recurrence = Recurrence.of(every: every, cron: cron, zone: zone)
        unknown = (message.keys - WORDS).first
        raise ConfigError.unknown(unknown, WORDS, what: "option of recurring #{name}") if unknown

        @message = { topic: topic, payload: payload, **message }.compact.freeze
        check
        freeze
      end

      # {name: "cleanup", times: "every 3600", topic: "jobs"}, to show it.
      #: () -> Hash[Symbol, String]
      def summary = { name: @name, times: @recurrence.to_s, topic: @message[:topic] }

      # Its id, among the recurring messages of this owner.
      #: (String) -> String
      def id(owner) = "#{Recurring.prefix(owner)}#{@name}"

      # The start of the ids of an owner: of the apps with this group_id.
      #: (String) -> String
      def self.prefix(owner) = "#{ID}#{owner}/"

      # Does this id belong to this owner? A name has no slash, but the group_id of another app may have one.
      #: (String, String) -> bool
      def self.of?(owner, id) = id.start_with?(prefix(owner)) && !id.delete_prefix(prefix(owner)).include?("/")

      # Its entry, if `current` (the one in the schedule, or nil) is another one; nil: it is the same. A time that was
      # sent does not come again; one that was missed is kept, unless the times changed.
      #: (String, Integer, ScheduledMessage?) -> ScheduledMessage?
      def entry(id, schedule_partition, current)
        values = { topic: nil, payload: nil, key: nil, headers: {}, partition: nil, **@message,
                   recurring: @recurrence.to_s }
        return if current && same?(values, current.to_h.slice(*values.keys))

        ScheduledMessage.new(id: id, schedule_partition: schedule_partition, at_ms: at_ms(current), last: current&.last,
                             **values)
      end

      # The entry of the next time, after one was sent.
      #: (ScheduledMessage, Integer) -> ScheduledMessage
      def self.next(entry, now)
        entry.with(at_ms: Recurrence.new(entry.recurring).after([now, entry.at_ms].max), last: entry.at_ms, moved: nil)
      end

      private

      def at_ms(current)
        return current.at_ms if current && current.recurring == @recurrence.to_s

        @recurrence.after([(Clock.wall * 1000).floor, *current&.last].max)
      end

      def check
        scope = "recurring #{@name}"
        checked("#{scope}: topic", @message[:topic])
        texts = @message.slice(:payload, :key).reject { |_, value| value.is_a?(String) }
        raise ConfigError.new("#{scope}: #{texts.keys.first}", nil, "expected a String") if texts.any?

        headers, partition = @message.values_at(:headers, :partition)
        fits = headers.nil? || (headers.is_a?(Hash) && headers.all? { |pair| pair.all?(String) })
        raise ConfigError.new("#{scope}: headers", headers.class, "expected a Hash of Strings") unless fits
        return if partition.nil? || (partition.is_a?(Integer) && partition >= 0)

        raise ConfigError.new("#{scope}: partition", partition, "expected an Integer >= 0")
      end

      def checked(scope, name)
        expected, test, convert = Settings::TYPES.fetch(:name)
        raise ConfigError.new(scope, name, "expected #{expected}") unless test.call(name)

        convert.call(name)
      end

      # Strings come from Kafka without their encoding.
      def same?(values, others)
        [values, others].map { |all| all.values.map { |value| bytes(value) } }.uniq.one?
      end

      def bytes(value)
        return value.to_a.flatten.map { |nested| bytes(nested) } if value.is_a?(Hash)

        value.is_a?(String) ? value.b : value
      end
    end
  end
end
