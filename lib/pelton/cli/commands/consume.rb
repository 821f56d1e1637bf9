# frozen_string_literal: true

require_relative "../../decoding/key_text"
require_relative "../../routing/condition"
require_relative "../messages/json_line"
require_relative "../messages/message_command"
require_relative "../messages/message_format"
require_relative "../messages/message_text"
require_relative "../values"
require_relative "../where_text"

module Pelton
  class CLI
    module Commands
      # `pelton consume`
      class Consume < MessageCommand
        details <<~TEXT
          Prints messages of a topic: as text on a terminal, otherwise as one JSON object per line. Without
          --until it waits for new messages; Ctrl-C ends it. It joins no group and commits no offset.
        TEXT
        details <<~TEXT
          Without --format, payloads are decoded as the route of the topic says (-r), otherwise as JSON where
          that is possible. In JSON, the exact bytes are in payload_text or payload_base64 if the decoded
          payload does not have the same text, so pelton produce --json-lines can copy every message.
        TEXT
        example "pelton consume orders", "new messages, like tail -f"
        example "pelton consume orders --from -10 --until end", "the last 10 messages of each partition"
        example "pelton consume orders --from 2h --where 'where(\"total\").gt(100)' --count 5"
        example "pelton consume orders --from beginning --until end | jq .payload.total"
        example "pelton consume a --from beginning --until end | pelton produce b --json-lines", "copies a topic"
        arguments "TOPIC"
        option(:from, "--from PLACE", "beginning, end, an offset, -N (the last N offsets of each partition, which " \
                                      "may be fewer messages), a time, or 2h (2 hours ago)", default: "end")
        option(:until, "--until PLACE", "stop before this offset or time, or at the end of now: end")
        option :partition, "--partition N", "only this partition", type: Integer, many: true
        option :key, "--key KEY", "only messages with this key. If the route (-r) has a key_deserializer, also the " \
                                  "decoded key, as text or JSON"
        option :where, "--where CONDITION", "only messages for which it holds, in the words of where in routes",
               many: true
        option :count, "--count N", "stop after N messages", type: Integer
        option :format, "--format FORMAT", "how payloads are decoded", choices: MessageFormat::NAMES
        option :registry, "--registry URL", "schema registry, for Avro; with a login: https://user:password@host"
        option :payload_only, "--payload-only", "print only payloads, one per line"
        option :quiet, "-q", "--quiet", "print no notes and no count on stderr"
        option :timeout, "--timeout SECONDS", "wait this long for Kafka's answers", type: Float, default: 10
        connects

        OFFSET = /\A-?\d+\z/
        # Partitions whose next offset is shown.
        SHOWN = 20
        private_constant :OFFSET, :SHOWN

        private

        def run
          check
          interruption
          @key = KeyText.new(options[:key]) if decoded_keys?
          @condition = condition
          @format = MessageFormat.new(options[:format], registry: options[:registry], route: route, fields: fields?)
          @out.binmode.sync = true # each message at once, also in a pipe
          # {["orders", 0] => the offset to read next}
          @next = {}
          @undecoded = 0
          print_all(read)
          note("payloads that could not be decoded: #{@undecoded}") if @undecoded.positive?
          note("stopped before #{positions}") if stopped? && !@next.empty?
        end

        def check
          raise ConfigError.new("--count", options[:count], "expected a number > 0") if options[:count]&.<(1)
        end

        # Nothing is connected before the first message is asked for.
        def read
          partitions = options[:partition]
          connected_app.each(partitions.empty? ? topic : { topic => partitions.uniq }, **@format.options,
                             from: from, up_to: up_to, follow: options[:until] != "end", where: @condition,
                             timeout: options[:timeout], on_begin: method(:begun))
        end

        # ranges: {["orders", 0] => 42...50}, endless while it follows.
        def begun(ranges)
          note(waiting) if options[:until].nil?
          @next = ranges.transform_values(&:begin)
          @offsets = ranges.sum { |_, range| [range.end - range.begin, 0].max }
        end

        def print_all(messages)
          count = done = 0
          summarized do |bar|
            interruption.each(messages) do |message|
              done += pass(message)
              next unless admitted?(message)

              @out.write(text(message), "\n")
              count += 1
              bar&.total = estimate(count, done)
              bar&.advance
              break if count == options[:count]
            end
            bar&.total = nil unless interruption.requested?
          end
          @complete = count == options[:count]
        rescue ConfigError => e
          raise(e.key == "topic" && e.value == topic ? missing_topic : e)
        end

        # Returns by how many offsets the partition moved on. One that was added later begins with its first message.
        def pass(message)
          topic_partition = message.topic_partition
          before = @next.fetch(topic_partition, message.offset)
          (@next[topic_partition] = message.offset + 1) - before
        end

        # How many messages will be printed, if of the other offsets as many are printed as of those `done`.
        def estimate(count, done)
          found = count * @offsets / done if @offsets.to_f.finite?
          [found, options[:count]].compact.min
        end

        # Where stdout is the terminal, a line that is redrawn would disturb.
        def summarized(&block)
          options[:quiet] ? yield : progress("consumed", live: err.tty? && !@out.tty?, &block)
        end

        def stopped? = interruption.requested? || @complete

        def note(text) = (super unless options[:quiet])

        def waiting
          start = { "end" => "from the end", "beginning" => "from the beginning" }.fetch(options[:from]) do |from|
            "from #{from}"
          end
          "reading #{topic} #{start}, waiting for new messages; Ctrl-C ends it"
        end

        # "orders/0 offset 43, orders/1 offset 18"
        def positions
          list = @next.sort.map { |(name, partition), offset| "#{name}/#{partition} offset #{offset}" }
          [*list.first(SHOWN), *("#{list.size - SHOWN} more" if list.size > SHOWN)].join(", ")
        end

        def text(message)
          payload = @format.payload(message)
          @undecoded += 1 if payload.error
          return @out.tty? ? Printable.line(payload.line) : payload.line if options[:payload_only]

          key = @format.key(message)
          return message_text.of(message, key, payload) if output.terminal?

          line = JsonLine.of(message, key, payload)
          @out.tty? ? JsonLine.for_terminal(line) : line
        end

        def message_text = @message_text ||= MessageText.new(output)

        # Native threads decide first; what they leave undecided is decided here. A payload that cannot be decoded has
        # no fields for which a condition could hold.
        def admitted?(message)
          decided = @condition.nil? || !message.undecided? || Routing::Condition.answer(@condition, message) == true
          decided && (@key.nil? || @key.match?(message))
        end

        def condition
          trees = options[:where].map { |text| WhereText.new("--where", text).tree }
          trees << key_condition if options[:key] && @key.nil?
          trees.empty? ? nil : [:all, *trees].freeze
        end

        def key_condition
          key = Plain.utf8(options[:key]) or raise ConfigError.new("--key", options[:key], "expected valid UTF-8")
          [:is, [:key].freeze, :in, [key.freeze].freeze].freeze
        end

        # Native threads compare the bytes of keys.
        def decoded_keys? = !options[:key].nil? && MessageFormat.new(options[:format], route: route).keys?

        def fields? = !@condition.nil? && Routing::Condition.fields?(@condition)

        def route = MessageFormat.route_of(app, topic)

        def from
          text = options[:from]
          return text.to_sym if %w[beginning end].include?(text)

          position("--from", text, "beginning, end, an offset, -N, a time such as 2026-11-23T08:00:00Z, or 2h")
        end

        def up_to
          text = options[:until]
          return text&.to_sym if text.nil? || text == "end"

          allowed = "end, an offset, a time such as 2026-11-23T08:00:00Z, or 2h"
          found = position("--until", text, allowed)
          found.is_a?(Integer) && text.start_with?("-") ? refuse("--until", text, allowed) : found
        end

        def position(option, text, allowed)
          return Values.time(option, text) unless text.match?(OFFSET)

          number = Integer(text, 10)
          text == "-0" || number.bit_length > 63 ? refuse(option, text, allowed) : number
        rescue ConfigError
          refuse(option, text, allowed)
        end

        def refuse(option, text, allowed) = raise(ConfigError.new(option, text, "expected #{allowed}"))
      end
    end
  end
end
