# frozen_string_literal: true

require_relative "../cli/messages/message_format"
require_relative "../errors"
require_relative "../offsets/scan"
require_relative "../routing/condition"

module Pelton
  class Web
    # Reads a few messages of a topic: the newest ones, or those from an offset or a time on. It asks for the bounds of
    # all partitions at once, and reads only the partitions whose messages it needs.
    #   Reading.new(app, "orders").from(0, 42, 50).messages
    class Reading
      # messages: newest first, or from an offset or time on in their order. read: how many offsets were looked at.
      # there: how many there are, from an offset or time on. complete: false if a limit of time or bytes ended it
      # before. following: the offset from which to go on; nil: there are no more. before: of the newest ones, the same
      # for `newest`, of all partitions: {0 => 42}.
      Found = Struct.new(:messages, :read, :complete, :following, :there, :before)
      # Most offsets that a filter looks at, and seconds that it takes.
      SCAN = 5_000
      TIME = 5
      # Most bytes of messages that it reads.
      BYTES = 64 << 20
      # Many offsets have no message: in a compacted topic, and after transactions. So it looks this many times further
      # back for the newest messages, up to SCAN offsets.
      FURTHER = 10
      private_constant :SCAN, :TIME, :BYTES, :FURTHER

      # format: shows payloads, see CLI::MessageFormat.
      attr_reader :format

      # where: a condition of Routing::Condition.
      #: (App, String, ?where: Array[untyped]?) -> void
      def initialize(app, topic, where: nil)
        @app = app
        @topic = topic
        @where = where
        fields = !where.nil? && Routing::Condition.fields?(where)
        @format = CLI::MessageFormat.new(nil, route: CLI::MessageFormat.route_of(app, topic), fields: fields)
      end

      # The newest messages, of all partitions or of one. The block returns when a partition last got a message. Of
      # a topic with more partitions than messages are wanted, only those with the latest time are read. before: only
      # messages before these offsets, {0 => 42}.
      #: (Integer, ?partition: Integer?, ?before: Hash[Integer, Integer]) { ([String, Integer]) -> Numeric } -> Found
      def newest(limit, partition: nil, before: {}, &changed_at)
        all = bounds(partition).to_h do |pair, range|
          [pair, range.begin...before.fetch(pair.last, range.end).clamp(range.begin, range.end)]
        end
        bounds = all.reject { |_, range| range.size.zero? }
        bounds = bounds.max_by(limit) { |pair, _| changed_at.call(pair) }.to_h if bounds.size > limit
        newest_of(*last_of(bounds, limit), limit, all)
      end

      # Messages of one partition from this offset on.
      #: (Integer, Integer, Integer) -> Found
      def from(partition, offset, limit)
        pair, range = bounds(partition).first
        range = offset.clamp(range.begin, range.end)...range.end
        found = read({ pair => first_scanned(range) }, limit)
        more = found.messages.size >= limit
        found = first_of(found, limit, range.size, &:offset)
        after = more ? found.messages.last.offset + 1 : range.begin + found.read
        found.following = after if after < range.end
        found.read = after - range.begin
        found
      end

      # The message at this offset; nil: there is none. Raises WaitTimeout if that was not known in time.
      #: (Integer, Integer) -> Message?
      def at(partition, offset)
        found = from(partition, offset, 1)
        message = found.messages.find { |read| read.offset == offset }
        return message if message || found.complete

        raise WaitTimeout.new("reading #{@topic}/#{partition} offset #{offset}", nil, TIME)
      end

      # Messages that are not older than this time.
      #: (Time, Integer, ?partition: Integer?) -> Found
      def since(time, limit, partition: nil)
        bounds = bounds(partition)
        begins = @app.admin.offsets(bounds.transform_values { time }, committed: false, timeout: TIME).compact
        ranges = begins.to_h { |pair, first| [pair, first...bounds[pair].end] }
        found = read(ranges.transform_values { |range| first_scanned(range) }, limit)
        first_of(found, limit, count(ranges)) { |message| [message.timestamp_ms, message.partition, message.offset] }
      end

      private

      def first_of(found, limit, there, &order)
        found.messages = found.messages.sort_by(&order).first(limit)
        found.there = there
        found
      end

      # begins: of what was read, {0 => 42}. bounds: of all partitions.
      def newest_of(found, begins, limit, bounds)
        cut = found.messages.size > limit
        found = first_of(found, limit, count(bounds)) do |message|
          [-message.timestamp_ms, message.partition, -message.offset]
        end
        found.before = older(bounds, cut ? {} : begins, found) if found.complete && (cut || found.read < found.there)
        found
      end

      # Where older messages end in each partition. begins: the offsets from which on all is on this page.
      def older(bounds, begins, found)
        shown = found.messages.group_by(&:partition).transform_values { |all| all.map(&:offset).min }
        bounds.to_h { |(_, number), range| [number, begins[number] || shown[number] || range.end] }
      end

      def count(ranges) = ranges.each_value.sum(&:size)

      # Reads the ends of these ranges until it has enough messages, or has looked at all or SCAN offsets. Returns them
      # and where each reading began: {0 => 42}.
      def last_of(bounds, limit)
        there = count(bounds)
        count = @where ? SCAN : limit
        loop do
          each = (count / [bounds.size, 1].max.to_f).ceil
          ranges = bounds.transform_values { |range| [range.end - each, range.begin].max...range.end }
          found = read(ranges)
          if found.messages.size >= limit || !found.complete || found.read >= there || count >= SCAN
            return [found, ranges.to_h { |(_, number), range| [number, range.begin] }]
          end

          count = [count * FURTHER, SCAN].min
        end
      end

      # What a filter looks at. Without one, the reading ends when it has enough messages.
      def first_scanned(range) = @where ? range.begin...[range.begin + SCAN, range.end].min : range

      # {["orders", 0] => 3...59}
      def bounds(partition)
        numbers = partition ? [partition] : partitions
        first, last = %i[beginning end].map do |position|
          asked = numbers.to_h { |number| [[@topic, number], position] }
          @app.admin.offsets(asked, committed: false, timeout: TIME)
        end
        first.to_h { |topic_partition, offset| [topic_partition, offset.to_i...last[topic_partition].to_i] }
      end

      def partitions
        @app.admin.topics(@topic, timeout: TIME).fetch(@topic).partitions.select(&:leader).map(&:number)
      end

      # most: messages of each partition.
      def read(ranges, most = Float::INFINITY)
        decode, deserializer, key_deserializer = @format.options.values_at(:decode, :deserializer, :key_deserializer)
        scan = Offsets::Scan.new(@app, [@topic], where: @where, format: { decode: decode, deserializers: deserializer,
                                                                          key_deserializers: key_deserializer })
        found = []
        early = scan.run(ranges, seconds: TIME, bytes: BYTES, most: most) { |message| found << message }
        looked = ranges.sum { |pair, range| scan.reached.fetch(pair, range.end) - range.begin }
        Found.new(found, looked, early.nil?)
      end
    end
  end
end
