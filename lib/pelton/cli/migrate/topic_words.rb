# frozen_string_literal: true

require_relative "long_jobs"
require_relative "statements"
require_relative "word_rows"

module Pelton
  class CLI
    module Migrate
      # Translates the block of a topic, and of `defaults`.
      class TopicWords < Statements
        # Karafka's default of max_retries, and of periodic's interval in seconds.
        RETRIES = "3"
        INTERVAL = "5"
        BY_KEY = ":key"
        QUEUE = %w[topic max_retries independent dispatch_method marking_method mark_after_dispatch transactional
                   strategy].freeze
        VIRTUAL = %w[partitioner max_partitions reducer distribution offset_metadata_strategy].freeze
        private_constant :RETRIES, :INTERVAL, :BY_KEY, :QUEUE, :VIRTUAL

        # concurrency: the code of config.concurrency. from: where groups begin. polls: the values of
        # max.poll.interval.ms, see LongJobs.
        #: (CodeFile, Draft, Expressions, concurrency: String, from: String, polls: Array[String]) -> void
        def initialize(file, draft, expressions, concurrency:, from:, polls:)
          super(file, draft, expressions)
          @concurrency = concurrency
          @from = from
          @polls = polls
        end

        private

        def word(call)
          return false if call.receiver
          return send(:"word_#{call.name}", call) != false if respond_to?(:"word_#{call.name}", true)

          row = WORDS[call.name] or return false
          off?(call) ? nothing(call) : row(call, row)
        end

        # `long_running_job(false)` says nothing.
        def off?(call) = call.args.size == 1 && Call.literal(call.args.first) == false && call.name != "active"

        def nothing(call)
          file.found(call.node, :same, nil, "it is off: nothing to do")
          true
        end

        def row(call, row)
          return tell(call, row) unless row.pelton&.include?("%")

          value = call.args.first
          return false if value.nil? && call.name != "manual_offset_management"

          line = if row.pelton.include?("%<")
                   format(row.pelton, seconds: seconds(value))
                 else
                   row.pelton.sub("%s") do
                     text(value)
                   end
                 end
          copy(call, row.kind, line.strip, value, note: row.note)
          true
        end

        # What the caller of this class has written already.
        def word_consumer(_call) = true
        def word_kafka(_call) = true
        def word_config(_call) = true

        def word_deserializers(call)
          words = { "payload" => "deserializer", "key" => "key_deserializer", "headers" => "headers_deserializer" }
          extra(call, words.keys) || call.keywords.slice(*words.keys).each do |key, node|
            line = "#{words[key]} #{text(node)}"
            copy_part(node, line, DESERIALIZER)
          end
        end

        # A part of a call, with a finding of its own.
        def copy_part(node, line,
                      note = nil)
          copy(Call.new(nil, nil, [], {}, nil, node), :differs, line, node, note: note)
        end

        def word_dead_letter_queue(call)
          extra(call, QUEUE) && (return false)
          topic, retries = call.keywords.values_at("topic", "max_retries")
          count = retries ? text(retries) : RETRIES
          line = if Call.literal(topic) == false then "retries #{count}, then: :skip"
                 elsif topic then "dead_letters #{name(topic)}, retries: #{count}"
                 end
          return false unless line

          copy(call, *queue(call, line), topic, retries, note: queue_note(call))
          strategy(call.keywords["strategy"]) if call.keywords["strategy"]
        end

        def queue(call, line)
          [Call.literal(call.keywords["independent"]) == true && !call.keywords["strategy"] ? :same : :differs, line]
        end

        def queue_note(call)
          "attempts count for one message, as with independent: true" unless Call.literal(call.keywords["independent"])
        end

        def strategy(node)
          file.found(node, :differs, "on_failure ->(failure) { … }", "it returns :retry, :dead_letter, :skip or :stop")
          draft.todo("#{location(node)}: on_failure takes the place of strategy: #{one_line(node)}")
        end

        def word_virtual_partitions(call)
          extra(call, VIRTUAL) && (return false)
          partitioner, most = call.keywords.values_at("partitioner", "max_partitions")
          line = "concurrency #{most ? text(most) : @concurrency}, by: #{partitioner ? text(partitioner) : BY_KEY}"
          copy(call, :differs, line, partitioner, most,
               note: "no barrier: a key waits for itself only; messages for which `by` is nil have no order; " \
                     "no collapse after an error; beside other topics, N jobs at once need config.concurrency = N + 1")
        end

        def word_long_running_job(call)
          return nothing(call) if off?(call)

          tell(call, Migrate.differs(nil, LongJobs.note(@polls)))
        end

        def word_throttling(call)
          extra(call, %w[limit interval]) && (return false)
          limit, interval = call.keywords.values_at("limit", "interval")
          return false unless limit

          copy(call, :same, "throttle #{text(limit)}, every: #{interval ? seconds(interval) : 60}", limit, interval)
        end

        def word_periodic(call)
          given = call.keywords["interval"]
          return nothing(call) if off?(call)

          copy(call, :differs, "tick_every #{given ? seconds(given) : INTERVAL}", given,
               note: "`tick` is also called during pauses and retries")
        end
        alias word_periodic_job word_periodic

        def word_pause(call)
          first, last, exponential = call.keywords.values_at("timeout", "max_timeout", "with_exponential_backoff")
          shortest = first ? seconds(first) : "1"
          longest = if Call.literal(exponential) == false
                      shortest
                    else
                      (last ? seconds(last) : "30")
                    end
          copy(call, :same, "backoff #{shortest}..#{longest}", first, last)
        end

        def word_initial_offset(call)
          start = { "earliest" => ":beginning", "latest" => ":end",
                    "error" => ":error" }[Call.literal(call.args.first).to_s]
          return false unless start
          return file.found(call.node, :same, "from #{start}", "as the group's default") if start == @from

          note = "must be the same for all topics of a group. As drafted, this topic starts at #{@from} where the " \
                 "group has no offset. To have `from #{start}`, give it a group of its own, and copy its offsets to " \
                 "that group before the first start (pelton groups copy). Without copied offsets, `from #{start}` " \
                 "decides where the new group begins"
          file.found(call.node, :differs, "from #{start}", note)
          draft.todo("#{location(call.node)}: `from` #{note}")
          draft.commented(true) { draft.code("from #{start}") }
        end

        def word_assign(call)
          list = call.args.size == 1 ? text(call.args.first) : "[#{call.args.map { |node| text(node) }.join(", ")}]"
          return false if call.args.empty? || Call.literal(call.args.first) == true

          copy(call, :differs, "partitions #{list}", *call.args, note: "for all topics of a group or for none")
        end

        # Options that are not known: the word is then unknown.
        def extra(call, known)
          more = call.keywords.keys - known
          more.each { |key| file.found(call.keywords[key], :unknown, nil, "the option #{key} of #{call.name}") }
          more.any?
        end
      end
    end
  end
end
