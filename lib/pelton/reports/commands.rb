# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../runtime/notifications"
require_relative "../subscription"
require_relative "command"

module Pelton
  module Reports
    # Takes the commands for this run of the process from config.command_topic, and lets the server carry them out. It
    # has a client of its own, and no group: it begins at the end of the topic, so a command that was sent before is not
    # read. One thread uses it.
    class Commands
      # Seconds for Kafka's answer, until the next attempt to open, and for the end.
      ASK = 2
      RETRY = 30
      CLOSE = 1
      # The broker answers when there is a command, or after 2 s. So a process asks seldom.
      KAFKA = { "fetch.wait.max.ms" => 2_000, "queued.max.messages.kbytes" => 1_024,
                "statistics.interval.ms" => 0 }.freeze
      UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION].freeze
      MISSING = "does not exist, so this process takes no commands: run pelton topics apply, or create it with one " \
                "partition"
      # The reason of what the server does, in events and logs.
      REASON = "command"
      private_constant :ASK, :RETRY, :CLOSE, :KAFKA, :UNKNOWN, :MISSING, :REASON

      # id: of the process. bus: gets errors.
      #: (Config, String, Server, bus: Notifications, ?native: Module?) -> void
      def initialize(config, id, server, bus:, native: nil)
        @config = config
        @id = id
        @server = server
        @bus = bus
        @native = native
        @subscription = nil
        @open = false
        @open_at = Clock.now
        # {id of a command that was carried out => when it is void}
        @done = {}
        # The name of the last error. Each is published once, until the topic is read again.
        @problem = nil
      end

      # The topic; nil: it cannot be read yet.
      #: () -> String?
      def topic = @open ? @config.command_topic : nil

      # Begins to read, if it does not yet and it is time for an attempt. Asks Kafka.
      #: () -> void
      def open
        return if @open || Clock.now < @open_at

        @open_at = Clock.now + RETRY
        begin_at_end
        @open = true
        @problem = nil
      rescue KafkaError => e
        close
        failed(e)
      end

      # Waits up to `seconds` for commands, and carries out those for this process. Returns whether there was one.
      #: (Numeric) -> bool
      def take(seconds)
        kind, *facts = @subscription.poll(seconds)
        case kind
        when :batch then return batch(facts.first)
        when :error then failed(facts.first)
        when :closed then raise ClosedError, @subscription.inspect
        end
        false
      end

      #: (?Numeric) -> void
      def close(timeout = CLOSE)
        @open = false
        @subscription&.close(timeout)
        @subscription = nil
      end

      private

      def begin_at_end
        @subscription = Subscription.new(@config, group_id: nil, bus: Notifications.new, native: @native, kafka: KAFKA)
        topic_partition = [@config.command_topic, Command::PARTITION]
        @subscription.assign([[*topic_partition, @subscription.watermarks(*topic_partition, ASK).last]])
      end

      def batch(batch)
        commands = batch.filter_map { |message| Command.parse(message.raw_payload) }
        commands.select { |command| valid?(command) }.each { |command| carry_out(command) }.any?
      ensure
        batch.release
      end

      # Also notes that it is carried out.
      def valid?(command)
        now = Clock.wall
        @done.reject! { |_, ends| ends < now }
        return false if command.process != @id || command.ends < now || @done.key?(command.id)

        @done[command.id] = command.ends
        true
      end

      # As the process's signals TSTP, CONT and TERM do. A second stop does not force the end.
      def carry_out(command)
        case command.action
        when "quiet" then @server.quiet(reason: REASON)
        when "resume" then @server.resume
        when "stop" then @server.stop(reason: REASON)
        end
      end

      # librdkafka repairs lost connections. That they are lost is published for the reports.
      def failed(error)
        raise error if error.fatal?
        return if error.retriable? && !UNKNOWN.include?(error.name)
        return if @problem == error.name

        @problem = error.name
        topic = @config.command_topic
        error = ConfigError.new("command_topic", topic, MISSING) if UNKNOWN.include?(error.name)
        @bus.publish("error.occurred", error: error, source: "commands", topic: topic)
      end
    end
  end
end
