# frozen_string_literal: true

require_relative "../../messages/json_line"
require_relative "../../messages/message_format"
require_relative "../../messages/message_part"
require_relative "../../messages/message_text"
require_relative "command"

module Pelton
  class CLI
    module Commands
      # `pelton dead-letters show`
      class DeadLettersShow < DeadLettersCommand
        details <<~TEXT
          ID is the failure id, which is in the log, too, or the place of the letter: partition and offset in
          the dead-letter topic, such as 0/42. Without --format, the payload is decoded as the route of the app
          says, otherwise as JSON. A payload that cannot be decoded is printed as text; if a reader schema
          refuses it, as it was written. In JSON, key, headers and payload are as pelton consume prints them.
        TEXT
        example "pelton dead-letters show orders.dead 9f86d081884c7d65"
        example "pelton dead-letters show orders.dead 0/42 --json", "for scripts"
        example "pelton dead-letters show orders.dead 0/42 --raw > payload.bin", "only the payload's bytes"
        example "pelton dead-letters show orders.dead 0/42 --format avro --registry http://localhost:8081"
        arguments "TOPIC", "ID"
        option :raw, "--raw", "print only the payload, byte by byte"
        option :format, "--format FORMAT", "how the payload is decoded", choices: MessageFormat::NAMES
        option :registry, "--registry URL", "schema registry, for Avro; with a login: https://user:password@host"
        connects

        private

        def run
          topic, id = arguments
          format = MessageFormat.new(options[:format], registry: options[:registry],
                                                       route: MessageFormat.route_of(app, topic))
          letter = all([topic], **format.options).first.find(id) or
            return failure("#{topic} has no letter #{id}: pelton dead-letters list #{topic} --status all")
          return raw(letter) if options[:raw]

          key = format.key(letter.message)
          payload = format.payload(letter.message)
          output.report(json(letter, key, payload)) { print(letter, key, payload) }
        end

        def raw(letter)
          @out.binmode.write(letter.raw_payload)
          0
        end

        # Key, headers and payload as in the lines of `pelton consume`.
        def json(letter, key, payload)
          more = { backtrace: letter.origin&.backtrace, key_error: key.error, payload_error: payload.error }.compact
          parts = { **key.fields("key"), **JsonLine.headers(letter.headers), **payload.fields("payload") }
          { **facts(letter), **parts, **more }
        end

        def print(letter, key, payload)
          facts = letter.to_h.compact.transform_keys { |name| name.to_s.tr("_", " ") }
          headers = letter.headers.transform_keys { |name| Printable.line(name) }
          output.record({ **facts, "key" => (key.line unless key.tombstone?), "headers" => headers })
          section("backtrace", letter.origin&.backtrace&.map { |line| Printable.line(line) })
          text = MessageText.new(output)
          output.puts(*text.error("key", key)) if key.error
          section("payload", [*text.error("payload", payload), text.body(payload)])
        end

        def section(title, lines)
          return unless lines

          output.puts
          output.puts output.paint(title, :bold)
          lines.each { |line| output.puts line }
        end
      end
    end
  end
end
