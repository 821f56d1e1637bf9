# frozen_string_literal: true

require_relative "../../logging/event_text"
require_relative "../../logging/printable"
require_relative "../../logging/repeat_limit"
require_relative "../../runtime/clock"
require_relative "../messages/line_format"
require_relative "../messages/lines"
require_relative "../messages/message_command"
require_relative "../messages/message_format"
require_relative "../messages/sent_lines"
require_relative "../values"

module Pelton
  class CLI
    module Commands
      # `pelton produce`
      class Produce < MessageCommand
        details <<~TEXT
          Sends each line of stdin as the payload of one message, and waits until Kafka has stored all of
          them. Lines that fail are reported with their number and the reason, and the exit code is 1. Ctrl-C
          stops reading; what was sent until then is still delivered.
        TEXT
        details <<~TEXT
          With --json-lines, each line is an object as pelton consume prints it: key, payload, headers,
          partition and timestamp, all optional but payload. A payload of null is a tombstone. topic and offset
          are ignored. payload_text, payload_base64 and payload_hex hold exact bytes and win over payload.
        TEXT
        example "pelton produce orders --key 7 --header source=shell", "type lines; Ctrl-D ends it"
        example "pelton produce orders --key-separator : < orders.txt", "lines such as 7:{\"total\":12.5}"
        example "pelton produce orders --json-lines < orders.jsonl"
        example "pelton produce orders --format avro --registry http://localhost:8081 < orders.jsonl"
        arguments "TOPIC"
        option :json_lines, "--json-lines", "each line is an object with key, payload, headers, …"
        option :key, "--key KEY", "the key of all messages that have none. For Avro keys, a text or JSON that fits " \
                                  "their schema"
        option :key_separator, "--key-separator TEXT", "a line is its key, this text, and its payload" do |text|
          text.empty? ? raise(ConfigError.new("--key-separator", text, "expected a text that is not empty")) : text
        end
        option(:headers, "--header NAME=VALUE", "a header of all messages", many: true) { |text| [header(text)] }
        option(:partition, "--partition N", "send to this partition; auto: choose it by the key, also for JSON lines " \
                                            "that name one") { |text| partition(text) }
        option :null_value, "--null-value TEXT", "a payload that is this text becomes null (a tombstone)"
        option :format, "--format FORMAT", "what the payloads are; json is checked, hex becomes bytes",
               choices: LineFormat::NAMES
        option :registry, "--registry URL", "schema registry, for Avro; with a login: https://user:password@host. " \
                                            "Without it, --format avro uses that of the topic's route (-r). The " \
                                            "latest schema of the subject is written"
        option :subject, "--subject NAME", "the subject of that schema, instead of TOPIC-value"
        option :key_subject, "--key-subject NAME", "keys are Avro, with the latest schema of this subject. With -r " \
                                                   "and a route that has key_deserializer :avro, it is TOPIC-key"
        option(:rate, "--rate RATE", "send at most this many: 100/s, 6000/min") { |text| Values.rate("--rate", text) }
        option :timeout, "--timeout SECONDS", "wait this long to find the topic", type: Float, default: 10
        option :json, "--json", "print the counts and failures as JSON"
        connects

        # Messages per native call. Ctrl-C stops between two calls.
        SLICE = 1000
        # Failures that are shown.
        SHOWN = 100
        UNKNOWN_TOPIC = 3
        private_constant :SLICE, :SHOWN, :UNKNOWN_TOPIC

        class << self
          private

          def header(text)
            name, value = text.split("=", 2)
            return [name, value] if value && !name.empty?

            raise ConfigError.new("--header", text, "expected NAME=VALUE, such as source=shell")
          end

          def partition(text)
            return :auto if text == "auto"
            return Integer(text, 10) if text.match?(/\A\d{1,9}\z/)

            raise ConfigError.new("--partition", text, "expected a number >= 0, or auto")
          end
        end

        private

        def run
          interruption
          @format = LineFormat.new(topic, **options, **decoders, headers: headers)
          @producer = quiet_app.producer
          # The line that was read last, and the first failures: [{ line: 3, reason: "…" }].
          @line = 0
          @due = Clock.now
          @failures = []
          @sent = SentLines.new(@producer) { |line, reason| failed(line, reason) }
          send_all
          report
          @sent.failed.zero? ? 0 : 1
        end

        # Those of the topic's route. That of payloads names the registry of --format avro without --registry.
        def decoders
          { decoder: (MessageFormat.decoder_of(app, topic) if options[:format] == "avro" || options[:key_subject]),
            key_decoder: MessageFormat.key_decoder_of(app, topic) }
        end

        # { "source" => "shell", "tags" => ["a", "b"] }
        def headers
          options[:headers].group_by(&:first).transform_values do |pairs|
            pairs.size > 1 ? pairs.map(&:last) : pairs.first.last
          end
        end

        # The command reports failed messages itself, so its log has the other failures only: brokers that are away.
        def quiet_app
          app.config.logger = nil unless app.config.frozen?
          limit = RepeatLimit.new { |_, text| note(text) }
          app.subscribe("error.occurred") do |event|
            next if limit.counts?(event)

            severity, text = EventText.of(event)
            note(text) if limit.pass?(event, severity, text)
          end
          connected_app
        end

        # A wrong name would fail after half a minute only, or create a topic.
        def check_topic
          @producer.partition_count(topic, timeout: options[:timeout])
        rescue DeliveryError => e
          raise(e.code == UNKNOWN_TOPIC ? missing_topic : e)
        end

        def send_all
          progress("sent", live: err.tty? && !input.tty?) do |bar|
            interruption.each(arriving) do |lines|
              lines.each_slice(slice) do |some|
                break if interruption.requested? || pause?(some.size)

                send_some(some, bar)
              end
            end
            note("stopped after line #{@line}; waiting for deliveries, Ctrl-C again ends it") if interruption.requested?
            @sent.finish
          end
        end

        # The lines in the groups in which they arrive. Ctrl-C ends the wait for them and for Kafka's first answer.
        def arriving
          Enumerator.new do |groups|
            check_topic
            note("one message per line; Ctrl-D ends it") if input.tty?
            Lines.new(input).each { |lines| groups << lines }
          end
        end

        def send_some(lines, bar)
          left = @sent.add(messages(lines)) { interruption.requested? }
          @line = left.first.first - 1 unless left.empty?
          bar.total = estimate
          bar.advance(lines.size - left.size)
        end

        # How many lines a file has, if the others are as long as those before; nil for a pipe.
        def estimate
          stat = input.stat if input.respond_to?(:stat)
          @line * stat.size / input.pos if stat&.file? && stat.size.positive?
        end

        # A tenth of a second at most.
        def slice = options[:rate] ? (options[:rate] / 10).floor.clamp(1, SLICE) : SLICE

        # Waits until that many messages may be sent, and decides when the next ones may be. true: a signal came.
        def pause?(count)
          return false unless options[:rate]

          early = @due - Clock.now
          @due = [@due, Clock.now].max + (count / options[:rate])
          early.positive? && interruption.wait(early)
        end

        # [[3, { topic: "orders", payload: "…" }], …] of the lines that are messages.
        def messages(lines)
          lines.filter_map do |line|
            @line += 1
            [@line, @format.message(line)]
          rescue ConfigError, EncodeError, RegistryError => e
            @sent.reject(@line, e.message)
            nil
          end
        end

        def failed(line, reason)
          return if @failures.size >= SHOWN

          @failures << { line: line, reason: reason }
          err.puts "pelton: line #{line}: #{Printable.line(reason)}" unless output.json?
        end

        def report
          counts = { topic: topic, lines: @line, delivered: @sent.delivered, failed: @sent.failed }
          output.report({ **counts, failures: @failures }) do
            hidden = @sent.failed - @failures.size
            note("#{hidden} more failures") if hidden.positive?
            note("#{counts[:delivered]} of #{counts[:lines]} lines delivered, #{counts[:failed]} failed")
          end
        end
      end
    end
  end
end
