# frozen_string_literal: true

require_relative "command"

module Pelton
  class CLI
    module Commands
      # `pelton dead-letters show`
      class DeadLettersShow < DeadLettersCommand
        details <<~TEXT
          ID is the failure id, which is in the log, too, or the place of the letter: partition and offset in
          the dead-letter topic, such as 0/42. The payload is decoded as the route of the app says, otherwise
          as JSON. A payload that cannot be decoded is printed as text.
        TEXT
        example "pelton dead-letters show orders.dead 9f86d081884c7d65"
        example "pelton dead-letters show orders.dead 0/42 --json", "for scripts"
        example "pelton dead-letters show orders.dead 0/42 --raw > payload.bin", "only the payload's bytes"
        arguments "TOPIC", "ID"
        option :raw, "--raw", "print only the payload, byte by byte"
        connects

        private

        def run
          topic, id = arguments
          letter = all([topic]).first.find(id) or
            return failure("#{topic} has no letter #{id}: pelton dead-letters list #{topic} --status all")
          return raw(letter) if options[:raw]

          payload, problem = payload(letter)
          all = { **facts(letter), key: text(letter.message.raw_key), headers: headers(letter),
                                   backtrace: letter.origin&.backtrace, payload: payload, decode_error: problem }
          output.report(all.compact) { print(letter, payload, problem) }
        end

        def raw(letter)
          @out.binmode.write(letter.raw_payload)
          0
        end

        def print(letter, payload, problem)
          facts = letter.to_h.compact.transform_keys { |name| name.to_s.tr("_", " ") }
          output.record({ **facts, "key" => text(letter.message.raw_key), "headers" => headers(letter) })
          section("backtrace", letter.origin&.backtrace&.map { |line| Printable.line(line) })
          section("payload", [*("(#{problem})" if problem), payload.is_a?(String) ? payload : pretty(payload)])
        end

        def section(title, lines)
          return unless lines

          output.puts
          output.puts output.paint(title, :bold)
          lines.each { |line| output.puts line }
        end

        # The payload, decoded if possible; and why it is not decoded.
        def payload(letter)
          value = letter.payload
          JSON.generate(value)
          [value, nil]
        rescue DecodeError, JSON::GeneratorError => e
          [text(letter.raw_payload), Printable.line(e.message)]
        end

        def pretty(value) = JSON.pretty_generate(value).lines.map { |line| Printable.line(line.chomp) }.join("\n")
        def headers(letter) = letter.headers.to_h { |name, value| [text(name), several(value)] }
        def several(value) = value.is_a?(Array) ? value.map { |one| text(one) } : text(value)
        def text(bytes) = bytes && Printable.line(bytes)
      end
    end
  end
end
