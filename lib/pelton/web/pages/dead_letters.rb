# frozen_string_literal: true

require_relative "../../cli/messages/message_format"
require_relative "../../dead_letters"
require_relative "../message_view"
require_relative "../page"
require_relative "../time_limit"

module Pelton
  class Web
    module Pages
      # What the pages about dead letters share.
      class Letters < Page
        include MessageView

        private

        def section = "/dead-letters"
        def live? = web.actions.running?(topic)
        def needs_cluster? = false
        def topic = request[:topic]
        def letters = web.actions.letters(topic)
        def format = CLI::MessageFormat.new(nil, route: CLI::MessageFormat.route_of(app, topic))

        # The message that failed.
        def origin_link(origin)
          origin && link("#{origin.topic}/#{origin.partition} offset #{origin.offset}", "/message",
                         topic: origin.topic, partition: origin.partition, offset: origin.offset)
        end
      end

      # The letters of a topic, grouped by error; without a topic, the topics.
      class DeadLetters < Letters
        LIMIT = 50
        # Most offsets that are read, the newest ones.
        OFFSETS = 50_000
        STATUS = %w[open redriven deleted all].freeze
        private_constant :LIMIT

        private

        def title = topic ? "Dead letters of #{topic}" : "Dead letters"

        def chosen = STATUS.include?(request[:status]) ? request[:status] : "open"
        def filters = { status: chosen.to_sym, error: request[:error] }.compact

        # Reads the topic once: counts letters, and keeps those that failed last. @unread: what is missing. @problem:
        # why it could not.
        def scan
          return if @counts

          @counts = Hash.new(0)
          @newest = []
          sizes = check_answers(topic)
          each = OFFSETS / [sizes.size, 1].max
          in_time = TimeLimit.run { letters.each(status: filters[:status], from: -each) { |letter| add(letter) } }
          @newest = newest
          @unread = unread(in_time, sizes.sum, sizes.sum { |size| [size, each].min })
        rescue Error => e
          @problem = e.message
        end

        def add(letter)
          @counts[letter.error] += 1
          return unless request[:error].nil? || letter.error == request[:error]

          @newest << letter
          @newest = newest if @newest.size > LIMIT * 4
        end

        # nil: all was read.
        def unread(in_time, there, wanted)
          return "Kafka took longer than #{TimeLimit::SECONDS} s, so letters are missing here." unless in_time
          return if wanted == there

          "The newest #{whole(wanted)} of #{whole(there)} offsets were read. Older letters are missing here."
        end

        def newest = @newest.max_by(LIMIT) { |letter| [letter.failed_at.to_f, letter.offset] }
        def counts = @counts.sort_by { |_, count| -count }
        def count = filters[:error] ? @counts.fetch(filters[:error], 0) : @counts.values.sum
        def actions? = web.actions.enabled? && chosen == "open" && count.positive?
        # What an action changes, also those that were not read.
        def meant = @unread ? "all letters" : plural(count, "letter")
      end

      # One letter: its error with the backtrace, where it came from, its contents.
      class DeadLetter < Letters
        def initialize(...)
          super
          raise NotFound, "A letter needs topic and id." unless topic

          check_answers(topic)
          in_time = TimeLimit.run { @letter = letters.find(request[:id].to_s) }
          raise TooLate, "The letter was not found within #{TimeLimit::SECONDS} s." unless in_time
          raise NotFound, "There is no such letter." unless @letter
        rescue ConfigError => e
          raise NotFound, e.message
        end

        private

        attr_reader :letter

        def title = "Dead letter #{letter.id}"
        def actions? = web.actions.enabled? && letter.status == :open

        def group = letter.group && group_link(letter.group)

        def facts
          from = letter.origin
          { "Status" => letter.status, "Failed" => letter.failed_at && Numbers.time(letter.failed_at),
            "Group" => group, "Attempts" => from&.attempts, "Redrives" => from&.redrives,
            "Origin" => origin_link(from), "Place" => letter.place,
            "Key" => bytes_text(letter.message.raw_key), "Size" => Numbers.bytes(letter.message.size),
            "Redriven to" => letter.redriven_to }.compact
        end
      end
    end
  end
end
