# frozen_string_literal: true

module Pelton
  # What an app offers about messages that wait in topics of its own: dead letters, and the schedule.
  class App
    # The letters of a dead-letter topic, to list, redrive and delete them; see DeadLetters. Freezes the configuration.
    #   app.dead_letters("orders.dead").redrive(error: "ArgumentError").handled # => 12
    # decode, deserializer, key_deserializer: as in routes. kafka: options of librdkafka. Raises ConfigError.
    #: (String, ?decode: untyped, ?deserializer: untyped, ?key_deserializer: untyped, ?kafka: Hash[String, untyped])
    #:   -> DeadLetters
    def dead_letters(topic, **options)
      require_relative "../dead_letters"
      DeadLetters.new(@config.freeze, topic, **options, bus: @notifications, native: @native)
    end

    # The messages of produce_later that wait for their time; see Schedule. Freezes the configuration.
    #   app.schedule.cancel("reminder-7") # => true
    # Raises ConfigError without config.schedule_topic.
    #: () -> Schedule
    def schedule
      require_relative "../schedule"
      Schedule.new(@config.freeze, producer, bus: @notifications, native: @native)
    end
  end
end
