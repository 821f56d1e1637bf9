# frozen_string_literal: true

require_relative "../../cli/messages/message_format"
require_relative "../../dead_letters"
require_relative "../message_view"
require_relative "../page"

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
      end

      # The letters of a topic, grouped by error; without a topic, the topics.
      class DeadLetters < Letters
        LIMIT = 50
        STATUS = %w[open redriven deleted all].freeze
        private_constant :LIMIT

        private

        def title = topic ? "Dead letters of #{topic}" : "Dead letters"

        def chosen = STATUS.include?(request[:status]) ? request[:status] : "open"
        def filters = { status: chosen.to_sym, error: request[:error] }.compact

        # Reads the topic once: counts all, and keeps those that failed last. @problem: why it could not.
        def scan
          return if @counts

          check_answers(topic)
          @counts = Hash.new(0)
          @newest = []
          letters.each(status: filters[:status]) do |letter|
            @counts[letter.error] += 1
            next unless request[:error].nil? || letter.error == request[:error]

            @newest << letter
            @newest = newest if @newest.size > LIMIT * 4
          end
          @newest = newest
        rescue Error => e
          @problem = e.message
        end

        def newest = @newest.max_by(LIMIT) { |letter| [letter.failed_at.to_f, letter.offset] }
        def counts = @counts.sort_by { |_, count| -count }
        def count = filters[:error] ? @counts.fetch(filters[:error], 0) : @counts.values.sum
        def actions? = web.actions.enabled? && chosen == "open" && count.positive?
      end

      # One letter: its error with the backtrace, where it came from, its contents.
      class DeadLetter < Letters
        def initialize(...)
          super
          raise NotFound, "A letter needs topic and id." unless topic

          check_answers(topic)
          @letter = letters.find(request[:id].to_s)
          raise NotFound, "There is no such letter." unless @letter
        rescue ConfigError => e
          raise NotFound, e.message
        end

        private

        attr_reader :letter

        def title = "Dead letter #{letter.id}"
        def actions? = web.actions.enabled? && letter.status == :open

        def facts
          from = letter.origin
          { "Status" => letter.status, "Failed" => letter.failed_at && Numbers.time(letter.failed_at),
            "Group" => letter.group, "Attempts" => from&.attempts, "Redrives" => from&.redrives,
            "Origin" => from && "#{from.topic}/#{from.partition} offset #{from.offset}", "Place" => letter.place,
            "Key" => bytes_text(letter.message.raw_key), "Size" => Numbers.bytes(letter.message.size),
            "Redriven to" => letter.redriven_to }.compact
        end
      end
    end
  end
end
