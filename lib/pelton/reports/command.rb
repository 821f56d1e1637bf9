# frozen_string_literal: true

require "json"
require "securerandom"
require_relative "../runtime/clock"

module Pelton
  module Reports
    # A command to one server process: a message of config.command_topic.
    class Command
      VERSION = 1
      # Processes read one partition.
      PARTITION = 0
      # Seconds from when it was made until it is void.
      VALID = 60
      # {action => states of a process that has carried it out}
      ACTIONS = { "quiet" => %w[quieting quiet], "resume" => %w[running], "stop" => %w[stopping stopped] }.freeze

      # The command in a message; nil: it is none, or of a version or with an action that this one does not know.
      #: (String?) -> Command?
      def self.parse(text)
        data = JSON.parse(text.to_s, symbolize_names: true)
        return unless data in { version: VERSION, id: String => id, process: String => process,
                                action: String => action, until: Integer | Float => ends }

        new(process, action, id: id, ends: ends) if ACTIONS.key?(action)
      rescue JSON::ParserError, EncodingError
        nil
      end

      # id: of the command, which a process carries out once. process: the id in the reports of the process, which
      # belongs to one run of it, "web-1:4711:1764300000123". ends: when it is void, in seconds since 1970.
      #: (id: String, process: String, action: String, ends: Float)
      attr_reader :id, :process, :action, :ends

      #: (String, String, ?id: String, ?ends: Float) -> void
      def initialize(process, action, id: SecureRandom.hex(8), ends: Clock.wall + VALID)
        @process = process
        @action = action
        @id = id
        @ends = ends
        freeze
      end

      # What a producer takes.
      #: (String) -> Hash[Symbol, untyped]
      def message(topic)
        facts = { version: VERSION, id: @id, process: @process, action: @action, until: @ends }
        { topic: topic, partition: PARTITION, key: @process, payload: JSON.generate(facts) }
      end

      # Has a process in this state carried it out, or has it begun to stop?
      #: (String) -> bool
      def done?(state) = [*ACTIONS.fetch(@action), *ACTIONS["stop"]].include?(state)
    end
  end
end
