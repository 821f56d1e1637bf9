# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../schedule/ids"
require_relative "../schedule/scheduled_message"

module Pelton
  class Producer
    # Messages that are sent later. Producing includes it.
    module Later
      UNSET = "is not set: name the topic that keeps messages until their time, as config.schedule_topic = " \
              "\"pelton.schedule\""
      MESSAGE = %i[key partition partition_key headers].freeze
      private_constant :UNSET, :MESSAGE

      # Sends a message at a time, also if this process has ended by then. Returns the id of its entry in the schedule,
      # once Kafka has stored it. A running server of the app sends it, see Schedule.
      #   producer.produce_later(topic: "mails", payload: "…", in: 3600) # => "@2.h3Vw0tq-1cFeSL5m"
      #   producer.produce_later(topic: "mails", payload: "…", at: Time.now + 3600, key: "7", id: "reminder-7")
      # at: a Time; in: seconds, instead of `at`. A time in the past means now; the farthest is 10 years ahead. key,
      # partition, partition_key, headers: of the message; it passes the middleware now. id: a name of your own. An
      # entry that waits under this id is replaced.
      #
      # Waits as produce_sync does, up to `timeout` seconds (config.delivery_timeout, 180 s). Raises ConfigError without
      # config.schedule_topic, InvalidMessageError for wrong arguments, and what produce_sync raises. Callable from
      # every thread.
      #: (topic: String, payload: String?, ?at: Time?, ?in: Numeric?, ?id: String?, ?key: String?, ?partition: Integer?,
      #:  ?partition_key: String?, ?headers: Hash[String, String | Array[String]]?, ?timeout: Numeric?) -> String
      def produce_later(topic:, payload:, at: nil, id: nil, timeout: nil, **more)
        Clock.check(timeout)
        schedule = @source.schedule_topic
        at_ms = Schedule::ScheduledMessage.due(at, more.delete(:in))
        message = known_later(past_middleware({ topic: topic, payload: payload, **more }))
        id, schedule_partition = Schedule::Ids.assign(id, message, @source.partitions, schedule, @queue_timeout)
        entry = Schedule::ScheduledMessage.new(id: id, at_ms: at_ms, schedule_partition: schedule_partition, **message)
        wait(hand_over([entry.record(schedule)], awaited: true), timeout)
        id
      end

      # For Pelton: config.schedule_topic. Raises ConfigError if it is not set.
      #: () -> String
      def schedule_topic = @config.schedule_topic || raise(ConfigError.new(:schedule_topic, nil, UNSET))

      private

      # Raises what sending the message would raise at once.
      def known_later(message)
        known(message)
        other = (message.keys - MESSAGE - %i[topic payload]).first
        raise InvalidMessageError.new(other, message[other], "nothing: a later message has none") if other

        check_partition_key(message[:partition_key], message[:partition])
        @source.check(message.except(:partition_key))
        own = message[:headers]&.each_key&.find { |name| name.start_with?(Schedule::ScheduledMessage::PREFIX) }
        raise InvalidMessageError.new("header name", own, "another name: Pelton uses it itself") if own

        message
      end
    end
  end
end
