# frozen_string_literal: true

require_relative "../../cli/values"
require_relative "../message_view"
require_relative "../page"
require_relative "../search"

module Pelton
  class Web
    module Pages
      # Topics and groups by name, and messages by a text in their key or payload.
      class Search < Page
        include MessageView

        # What the reader may choose, and the parts of a message that it stands for.
        FIELDS = { "names" => [], "keys" => [:key], "payloads" => [:payload],
                   "keys and payloads" => Web::Search::PARTS }.freeze
        # Bytes around a match.
        AROUND = 80
        SINCE = "1h"
        private_constant :AROUND

        #: () -> Integer
        def status = @problem ? 400 : 200

        private

        def title = "Search"
        def section = "/search"
        def live? = false
        def text = request[:text]
        def field = request[:in] || "names"

        # The result of a search for messages; nil: none was asked for, or @problem says why there is none.
        def found
          return @found if defined?(@found)

          @found = text && search
        rescue ConfigError, KafkaError => e
          @problem = explained(e)
          @found = nil
        end

        def search
          parts = FIELDS.fetch(field) do
            raise ConfigError.new("in", field, "expected #{FIELDS.keys.join(", ")}")
          end
          return if parts.empty?

          check_kafka
          time = CLI::Values.time("since", request[:since] || SINCE)
          Web::Search.new(app, text, parts: parts).since(time, partitions)
        end

        def partitions
          topics.flat_map { |topic| [topic.name].product(topic.partitions.select(&:leader).map(&:number)) }
        end

        # Those that the reader names, or all.
        def topics
          names = request[:topics].to_s.split(/[\s,]+/).reject(&:empty?)
          return now.topics.values if names.empty?

          names.uniq.map { |name| now.topics[name] or raise ConfigError.new("topics", name, "there is no such topic") }
        end

        # Names of topics, or of groups, that contain the text.
        def named(all) = all.select { |name| name.downcase.include?(text.downcase) }.sort

        # The text of a key or payload around its first match.
        def excerpt(bytes)
          return "none" if bytes.nil?

          at = bytes.b.index(text.b)
          return cut(bytes, 0, bytes.bytesize) unless at

          first = [at - AROUND, 0].max
          Html.join([("…" if first.positive?), utf8(bytes.byteslice(first...at)), tag(:mark, text),
                     cut(bytes, at + text.bytesize, AROUND)])
        end

        def cut(bytes, from, size)
          size = [size, AROUND * 2].min
          "#{utf8(bytes.byteslice(from, size))}#{"…" if from + size < bytes.bytesize}"
        end

        def utf8(bytes) = bytes.force_encoding(Encoding::UTF_8).scrub("\u{FFFD}")
      end
    end
  end
end
