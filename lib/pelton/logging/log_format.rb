# frozen_string_literal: true

require "json"
require_relative "../errors"
require_relative "event_text"
require_relative "printable"

module Pelton
  # How Reporters::Log writes an event: as text, logfmt or JSON.
  module LogFormat
    # Most lines of a backtrace, and most causes of an error.
    LINES = 200
    CAUSES = 10
    # Keys that each line has. A value of an event with such a name gets the prefix event_, as level of kafka.log.
    TAKEN = %i[time level pid event message msg].freeze
    private_constant :LINES, :CAUSES, :TAKEN

    # :text, :logfmt or :json. Raises ConfigError for another name.
    #: (Symbol, backtraces: bool) -> (Text | Logfmt | Json)
    def self.for(name, backtraces:)
      known = { text: Text, logfmt: Logfmt, json: Json }
      kind = known.fetch(name) { raise ConfigError.unknown(name, known.keys, what: "log format") }
      kind.new(backtraces)
    end

    # Without the error: its text is in the message.
    #: (Events::Event) -> Hash[Symbol, untyped]
    def self.facts(event)
      event.payload.except(:error).compact.transform_keys { |key| TAKEN.include?(key) ? :"event_#{key}" : key }
    end

    # An error and its causes, the error first.
    #: (Exception?) -> Array[Exception]
    def self.chain(error)
      chain = []
      while error.is_a?(Exception) && chain.size < CAUSES && chain.none? { |earlier| earlier.equal?(error) }
        chain << error
        # What a DecodeError was caused by may show the payload.
        error = error.is_a?(DecodeError) ? nil : error.cause
      end
      chain
    end

    #: (Exception) -> Array[String]
    def self.backtrace(error) = Array(error.backtrace).first(LINES).map { |line| Printable.line(line) }

    # One line of text, and the backtraces below it if they are wanted.
    class Text
      #: (bool) -> void
      def initialize(backtraces) = @backtraces = backtraces

      #: (Integer, String, Events::Event?) -> String
      def line(severity, text, event) = EventText.line(severity, text) + below(event).map { |line| "#{line}\n" }.join

      # For a Logger, which adds time and severity.
      #: (String, Events::Event?) -> String
      def message(text, event) = [text, *below(event)].join("\n")

      private

      def below(event)
        return [] unless @backtraces && event

        LogFormat.chain(event.payload[:error]).flat_map.with_index do |error, index|
          [*("  caused by #{EventText.error(error)}" if index.positive?),
           *LogFormat.backtrace(error).map { |line| "    #{line}" }]
        end
      end
    end

    # time=… level=… pid=… event=… msg="…" group=billing topic=orders …
    class Logfmt
      PLAIN = %r{\A[\w.:/+#-]+\z}
      private_constant :PLAIN

      #: (bool) -> void
      def initialize(_backtraces); end

      #: (Integer, String, Events::Event?) -> String
      def line(severity, text, event)
        "#{pairs(time: EventText.time, level: EventText.level(severity).downcase, pid: Process.pid)} " \
          "#{message(text, event)}\n"
      end

      #: (String, Events::Event?) -> String
      def message(text, event)
        error = event&.payload&.fetch(:error, nil)
        kind = error.is_a?(Exception) ? { error: error.class.to_s } : {}
        pairs(**(event ? { event: event.name } : {}), msg: text, **(event ? LogFormat.facts(event) : {}), **kind)
      end

      private

      def pairs(**values) = values.map { |key, value| "#{key}=#{plain(value)}" }.join(" ")

      def plain(value)
        text = Printable.line(Float === value ? value.round(6) : value) # rubocop:disable Style/CaseEquality -- any object
        text.match?(PLAIN) ? text : "\"#{text.gsub(/["\\]/) { |char| "\\#{char}" }}\""
      end
    end

    # {"time":"…","level":"INFO","pid":7,"event":"…","message":"…","topic":"orders",…,"error":{"class":…}}
    class Json
      #: (bool) -> void
      def initialize(_backtraces); end

      #: (Integer, String, Events::Event?) -> String
      def line(severity, text, event)
        head = { time: EventText.time, level: EventText.level(severity), pid: Process.pid }
        "#{JSON.generate({ **head, **object(text, event) })}\n"
      end

      #: (String, Events::Event?) -> String
      def message(text, event) = JSON.generate(object(text, event))

      private

      def object(text, event)
        return { message: text } unless event

        errors = LogFormat.chain(event.payload[:error]).map { |error| described(error) }
        error = errors.reverse.inject(nil) { |cause, facts| cause ? { **facts, cause: cause } : facts }
        { event: event.name, message: text, **plain(LogFormat.facts(event)), **(error ? { error: error } : {}) }
      end

      def described(error)
        { class: error.class.to_s, message: EventText.message(error), backtrace: LogFormat.backtrace(error) }
      end

      def plain(value)
        case value
        when Hash then value.to_h { |key, nested| [Printable.line(key), plain(nested)] }
        when Array then value.map { |nested| plain(nested) }
        when Integer, true, false, nil then value
        when Float then value.finite? ? value : value.to_s
        else Printable.line(value)
        end
      end
    end
  end
end
