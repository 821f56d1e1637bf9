# frozen_string_literal: true

require_relative "../../cli/messages/plain"
require_relative "../../cli/values"
require_relative "../../cli/where_text"
require_relative "../message_view"
require_relative "../page"
require_relative "../reading"

module Pelton
  class Web
    module Pages
      # Messages of a topic: the newest, or from an offset or a time on, also filtered.
      class Messages < Page
        include MessageView

        LIMIT = 50
        # Characters of a payload in the list.
        SHORT = 200
        # And of an unfolded one; its own page has more.
        LONG = 5_000
        private_constant :LIMIT, :SHORT, :LONG

        private

        def title = topic ? "Messages of #{topic}" : "Messages"
        def section = "/messages"
        def live? = false
        def needs_cluster? = false
        def topic = request[:topic]
        def names = now ? now.topics.keys.sort : []

        # Reading::Found; nil without a topic, or after an error, whose text is @problem.
        def found
          return @found if defined?(@found)

          @found = topic && read.tap { |found| decode(found.messages, @reading.format) }
        rescue ConfigError, KafkaError, InvalidMessageError => e
          @problem = explained(e)
          @found = nil
        end

        def read
          check_kafka
          @reading = Reading.new(app, topic, where: condition)
          return @reading.from(partition || 0, whole_number(:offset), LIMIT) if request[:offset]
          return @reading.since(since, LIMIT, partition: partition) if request[:since]

          @reading.newest(LIMIT, partition: partition, before: before) do |owned|
            history.series(:end, owned).changed_at || 0
          end
        end

        # "0:42,1:17" → {0 => 42, 1 => 17}: the messages before these offsets.
        def before
          text = request[:before] or return {}
          raise ConfigError.new("before", text, "expected partitions with offsets, as 0:42,1:17") unless
            text.match?(/\A\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*\z/)

          text.split(",").to_h { |pair| pair.split(":").map(&:to_i) }
        end

        # The same of the next page, which has older messages; nil: there is none. An address has no room for many.
        def older
          before = found.before
          before.map { |pair| pair.join(":") }.join(",") if before && before.size <= MOST
        end

        def since = CLI::Values.time("since", request[:since])

        def condition
          trees = []
          trees << CLI::WhereText.new("where", request[:where]).tree if request[:where]
          trees << [:is, [:key].freeze, :in, [request[:key]].freeze].freeze if request[:key]
          trees.empty? ? nil : [:all, *trees].freeze
        end

        def partition = request[:partition] && whole_number(:partition)

        def whole_number(name)
          number = Integer(request[name], 10, exception: false)
          return number if number&.between?(0, (2**63) - 1)

          raise ConfigError.new(name, request[name], "expected an Integer >= 0")
        end

        # Are there offsets that the filter did not look at?
        def partly? = (request[:key] || request[:where]) && found.read < found.there

        # From which offset the next page begins; nil: there is none.
        def following = found.following

        # A key in the list.
        def key(message)
          raw = message.raw_key
          return tag(:small, raw ? "empty" : "none") if raw.to_s.empty?

          tag(:code, cut(bytes_text(raw), SHORT))
        end

        # The beginning of the payload, which unfolds into all of it and the headers.
        def unfolding(message)
          text = payload_text(message, @reading.format)
          rows = some(header_rows(message.raw_headers)).map { |row| row.map { |cell| cut(cell, SHORT) } }
          whole = cut(payload_text(message, @reading.format, pretty: true), LONG)
          problem = decode_error(message, @reading.format)
          parts = [tag(:summary, Html.join([tag(:code, cut(text, SHORT)), *(badge("not decoded", :bad) if problem)])),
                   *(tag(:p, problem, class: "notice bad") if problem), tag(:pre, whole, tabindex: 0),
                   *(headers_table(rows) unless rows.empty?), message_link("The whole message", message)]
          tag(:details, Html.join(parts))
        end

        def cut(text, most) = text.size > most ? "#{text[0, most]}…" : text
      end

      # One message.
      class Message < Page
        include MessageView

        def initialize(...)
          super
          place = [request[:partition], request[:offset]].map { |text| Integer(text.to_s, 10, exception: false) }
          raise NotFound, "A message needs topic, partition and offset." unless request[:topic] && place.all?

          check_kafka
          @reading = Reading.new(app, request[:topic])
          @message = @reading.at(*place)
          raise NotFound, "#{request[:topic]}/#{place.join(" has no message at offset ")}." unless @message
        rescue InvalidMessageError => e
          raise NotFound, e.message
        rescue WaitTimeout => e
          raise TooLate, e.message
        end

        attr_reader :message

        private

        def title = "Message #{message.topic}/#{message.partition} offset #{message.offset}"
        def section = "/messages"
        def live? = web.actions.running?(message.topic)
        def needs_cluster? = false
        def payload = payload_text(message, @reading.format, pretty: true)
        def key = bytes_text(message.raw_key)
        def origin = message.origin
      end
    end
  end
end
