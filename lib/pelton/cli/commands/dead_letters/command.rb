# frozen_string_literal: true

require_relative "../../command"
require_relative "../../messages/plain"
require_relative "../../values"

module Pelton
  class CLI
    module Commands
      # What the commands about dead letters share: their topics.
      class DeadLettersCommand < Command
        NO_TOPIC = "is missing: name a dead-letter topic, or load an app that has some with -r"
        private_constant :NO_TOPIC

        # Adds the options that select letters.
        def self.filters
          option :ids, "--id ID", "failure id, or place such as 0/42", many: true
          option :groups, "-g", "--group NAME", "failed in this group", many: true
          option :topics, "-t", "--topic NAME", "was first in this topic", many: true
          option :errors, "-e", "--error CLASS", "the last error has this class", many: true
          option :keys, "--key KEY", "has this key. If the route (-r) has a key_deserializer, also the decoded key, " \
                                     "as text or JSON", many: true
          option(:since, "--since TIME", "failed then or later: ISO 8601, or 2h ago as 2h") do |text|
            Values.time("--since", text)
          end
          option(:until, "--until TIME", "failed before") { |text| Values.time("--until", text) }
        end
        private_class_method :filters

        # Adds the option for the status of letters.
        def self.status(description)
          option :status, "--status STATUS", description, choices: %w[open redriven deleted all], default: "open"
        end
        private_class_method :status

        # Adds the option for the most letters.
        def self.limit(default = nil)
          option(:limit, "--limit N", "at most this many letters", type: Integer, default: default) do |count|
            count.positive? ? count : raise(ConfigError.new("--limit", count, "expected an Integer >= 1"))
          end
        end
        private_class_method :limit

        # Adds the options of a redrive or deletion.
        def self.limits
          filters
          option(:rate, "--rate RATE", "at most this many: 100/s, 6000/min") { |text| Values.rate("--rate", text) }
          limit
          option(:dry_run, "--dry-run", "only count them")
        end
        private_class_method :limits

        private

        # The letters of the topics that were named, or of all dead-letter topics of the app. formats: how they are
        # decoded, if not as their route says.
        def all(names, **formats)
          app = connected_app
          routes = app.routes.empty? ? [] : routes_of(app)
          names = routes.flat_map { |_, topic| topic.dead_letter_topics }.uniq if names.empty?
          raise ConfigError.new("TOPIC", nil, NO_TOPIC) if names.empty?

          names.map do |name|
            how = how(routes.select { |_, topic| topic.dead_letter_topics.include?(name) })
            app.dead_letters(name, **how, **formats)
          end
        end

        # [[group, topic], …]
        def routes_of(app)
          app.routes.groups(app.config).flat_map do |group|
            group.topics.each_value.reject(&:stage).map { |topic| [group, topic] }
          end
        end

        # Payloads are decoded as their route says, unless two routes say different things. A group may have a cluster
        # of its own; what the user types wins.
        def how(routes)
          formats = routes.map do |_, topic|
            { decode: topic.decode, deserializer: topic.deserializer, key_deserializer: topic.key_deserializer }
          end
          kafka = connection.source == "config.kafka" ? routes.map { |group, _| group.kafka }.uniq : []
          { **(formats.uniq.size == 1 ? formats.first : {}), kafka: kafka.size == 1 ? kafka.first : {} }
        end

        def filters
          given = { **options.slice(:since, :until).compact, status: options[:status].to_sym }
          %i[id group topic error key].each do |name|
            values = options.fetch(:"#{name}s")
            given[name] = values unless values.empty?
          end
          given
        end

        # Redrives or deletes letters of each topic: the block does it. Returns the exit code.
        def handle(done, ask: false, &work)
          left = options[:limit]
          results = all(arguments).filter_map do |topic|
            next if left&.zero? || interruption.requested?

            limits = { limit: left, rate: options[:rate], stop: interruption }
            result = handle_topic(topic, done, limits, ask, &work)
            left -= result.handled if left
            { dead_letters: topic.topic, done.to_sym => result.handled, skipped: result.skipped,
              stopped_before: result.stopped_at }
          end
          output.report(Plain.of(results)) { results.each { |result| print_result(result, done) } }
          results.any? { |result| result[:skipped].any? } ? 1 : 0
        end

        # Counts first, for the progress, and for the question before a deletion.
        def handle_topic(topic, done, limits, ask, &work)
          counted = interruption.during { work.call(topic, { **filters, **limits, rate: nil, dry_run: true }) }
          return DeadLetters::Result.new(handled: 0, skipped: {}) unless counted
          return counted if options[:dry_run] || counted.handled.zero?

          question = "delete #{letters(counted.handled)} of #{topic.topic}?"
          return counted.dup.tap { |none| none.handled = 0 } if ask && !confirm(question)

          progress("#{topic.topic}: #{done}", total: counted.handled) do |bar|
            work.call(topic, { **filters, **limits }) { |_, problem| bar.advance unless problem }
          end
        end

        def print_result(result, done)
          name, count, skipped, place = result.values
          output.puts "#{"would be " if options[:dry_run]}#{done}: #{letters(count)} of #{name}"
          skipped.each { |reason, number| failure("not #{done}: #{letters(number)} of #{name}: #{reason}") }
          output.puts "stopped before #{place}" if place
        end

        # The facts of a letter, for JSON.
        def facts(letter)
          { dead_letters: letter.topic, **letter.to_h }.transform_values do |value|
            case value
            when Time then value.utc.iso8601(3)
            when String then value.dup.force_encoding(Encoding::UTF_8).scrub("?")
            else value
            end
          end
        end

        # "1 letter", "12 letters"
        def letters(count) = "#{count} letter#{"s" unless count == 1}"
      end
    end
  end
end
