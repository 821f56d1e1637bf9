# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../native"

module Pelton
  module Testing
    module Memory
      # Replaces a native subscription: reads the logs of a Broker. Batches are native, so messages are decoded and
      # filtered as always. `poll` never waits. It is the only member of its group; a test takes its partitions by
      # `take_away` and gives them back by `give`. Used by one thread at a time.
      class Subscription
        # A partition that is assigned.
        #   batches   makes its batches
        #   position  the next offset that is read
        #   mark      [offset, metadata] that is not committed yet; nil: none
        #   state     :reading, :paused, or :revoked (a revocation was reported and not answered)
        #   at_end    was the end of the log reported since the last message?
        Assigned = Struct.new(:batches, :position, :mark, :state, :at_end)
        private_constant :Assigned

        # As for Native::Subscription. The session finds it by its name.
        def self.new(name, ...) = super.tap { |client| Memory.session.subscriptions[name] = client }

        #: (String, Hash[String, String], Hash[Symbol, untyped]) -> void
        def initialize(name, settings, options)
          Native.check_options(settings)
          @name = name
          @group = settings["group.id"]
          @reset = settings.fetch("auto.offset.reset", "largest")
          @committed_only = settings["isolation.level"] != "read_uncommitted"
          @reports_end = settings["enable.partition.eof"].to_s == "true"
          @options = options
          @most = options.fetch(:max_messages, 100)
          @broker = Memory.broker(settings)
          @closed = false
          # [topic or Regexp, …]; nil: not subscribed.
          @topics = nil
          # {["orders", 0] => Assigned}
          @assigned = {}
          # Partitions that another member has: {["orders", 0] => true}
          @elsewhere = {}
          # Events that `poll` returns before batches.
          @events = []
          # {token => [["orders", 0], …]}: revocations that were not answered.
          @revocations = {}
        end

        def subscribe(topics)
          check_open
          @topics = topics.map { |name| name.start_with?("^") ? Regexp.new(name) : name }
        end

        def unsubscribe
          @topics = nil
          report_revocation(@assigned.keys)
        end

        # [[topic, partition, offset], …]
        def assign(rows)
          check_open
          commit_marks
          @assigned.clear
          rows.each { |topic, partition, offset| add([topic, partition], resolved([topic, partition], offset)) }
        end

        def poll(_timeout)
          return [:closed] if @closed

          find_partitions if @topics
          @events.shift || batch || at_end
        end

        # Nothing waits in `poll`.
        def wake = nil

        def revoked(token)
          [*@revocations.delete(token)].each do |place|
            commit_mark(place)
            @assigned.delete(place)
          end
        end

        def mark(topic, partition, offset, _leader_epoch = -1, metadata = nil)
          check_open
          assigned = @assigned[[topic, partition]] or return false
          assigned.mark = [offset, metadata]
          true
        end

        def unmark(topic, partition) = @assigned[[topic, partition]]&.mark = nil

        def commit(_timeout)
          check_open
          commit_marks
          true
        end

        def commit_async = commit_marks

        def commit_offset(topic, partition, offset, _leader_epoch, metadata, _timeout)
          check_open
          @broker.commit_offset(@group, [topic, partition], offset, metadata)
          true
        end

        def commit_offset_async(topic, partition, offset)
          @broker.commit_offset(@group, [topic, partition], offset)
        end

        def committed(places, _timeout) = places.map { |place| @broker.committed(@group, place)&.first }
        def committed_with_metadata(places, _timeout) = places.map { |place| @broker.committed(@group, place) }
        def pause(places) = places.map { |place| assigned(place) }.each { |one| one.state = :paused }
        def resume(places) = places.map { |place| assigned(place) }.each { |one| one.state = :reading }

        def seek(topic, partition, offset, _timeout = nil)
          one = assigned([topic, partition])
          one.position = reset([topic, partition], offset)
          one.at_end = false
          one.batches.begin
        end

        def position(topic, partition) = assigned([topic, partition]).position
        def lost? = false
        def assignment = @assigned.keys

        def partition_count(topic, _timeout)
          @broker.topic?(topic) ? @broker.partition_count(topic) : raise(Native.error(3))
        end

        def watermarks(topic, partition, _timeout) = [0, log([topic, partition]).end_offset]
        def unconfirmed = []
        def shorten_deadline(_timeout) = nil
        def closed? = @closed

        def ends
          check_open
          @assigned.map { |place, one| [*place, one.position, log(place).readable_end(committed: @committed_only)] }
        end

        # A time of −1 is the end.
        def offsets_for_times(rows, _timeout)
          rows.map do |*place, time|
            next log(place).readable_end(committed: @committed_only) if time == -1

            log(place).from(0, committed: @committed_only).find { |entry| entry.timestamp_ms >= time }&.offset
          end
        end

        def close(_timeout)
          commit_marks
          @assigned.each_value { |one| one.batches.begin }
          @assigned.clear
          @closed = true
        end

        # Accepted, for a config with `oauth`.
        def set_oauth_token(*) = nil
        def set_oauth_failure(*) = nil

        def inspect = "#<#{self.class} #{@name} group #{@group}>"

        # --- for the test --------------------------------------------------------------------------------------------

        #: () -> String
        attr_reader :group

        # Another member gets these partitions; lost: it has them already.
        #: (Array[[String, Integer]], ?lost: bool) -> void
        def take_away(places, lost: false)
          places.each { |place| @elsewhere[place] = true }
          report_revocation(places & @assigned.keys, lost: lost)
        end

        # The group gives these partitions back to this member.
        #: (Array[[String, Integer]]) -> void
        def give(places) = places.each { |place| @elsewhere.delete(place) }

        # What marked offsets are committed periodically.
        def commit_marks = @assigned.each_key { |place| commit_mark(place) }

        private

        def check_open = @closed && raise(ClosedError, "subscription #{@name}")

        def log(place) = @broker.log(*place) || @broker.create(place.first, place.last + 1).fetch(place.last)

        def assigned(place)
          check_open
          @assigned[place] || raise(KafkaError.new(-172, :_STATE, "#{place.join("/")} is not assigned to this " \
                                                                  "subscription"))
        end

        # Reports partitions that are new to it.
        def find_partitions
          places = wanted.flat_map { |topic| (0...@broker.partition_count(topic)).map { |number| [topic, number] } }
          fresh = places.reject { |place| @assigned.key?(place) || @elsewhere.key?(place) }
          return if fresh.empty?

          fresh.each { |place| add(place, resolved(place, -1001)) }
          @events << [:assigned, fresh]
        end

        def wanted
          @topics.flat_map { |one| one.is_a?(Regexp) ? @broker.topics.grep(one) : one }.uniq
        end

        def add(place, offset)
          format, condition = %i[decode where].map { |name| option(name, place.first) }
          batches = Native::GivenPartition.new(*place, format, condition)
          @assigned[place] = Assigned.new(batches, offset, nil, :reading, false)
        end

        def option(name, topic)
          table = @options[name] || {}
          table.fetch(topic) { table["*"] }
        end

        # The offset of a position as librdkafka writes it.
        def resolved(place, offset)
          case offset
          when -1 then log(place).end_offset
          when -2 then 0
          when -1001 then @broker.committed(@group, place)&.first || beginning(place)
          else reset(place, offset)
          end
        end

        # An offset that does not exist: auto.offset.reset decides.
        def reset(place, offset) = offset > log(place).end_offset ? beginning(place) : offset

        def beginning(place) = %w[smallest earliest beginning].include?(@reset) ? 0 : log(place).end_offset

        def batch
          # In turns: the partition that is read comes last the next time.
          @assigned.to_a.each do |place, one|
            next unless one.state == :reading

            entries = limited(log(place).from(one.position, committed: @committed_only, limit: @most))
            if entries.empty?
              one.position = [one.position, log(place).readable_end(committed: @committed_only)].max
              next
            end
            return [:batch, take(place, one, entries)]
          end
          nil
        end

        def limited(entries)
          bytes = 0
          room = @options.fetch(:max_batch_bytes, 1 << 20)
          entries.take_while.with_index do |entry, index|
            (bytes += entry.bytes) <= room || index.zero?
          end
        end

        def take(place, one, entries)
          one.position = entries.last.offset + 1
          one.at_end = false
          @assigned[place] = @assigned.delete(place)
          # The test may look at the messages after the batch was released.
          one.batches.batch(entries.map(&:row), (Clock.wall * 1000).floor).tap(&:messages)
        end

        def at_end
          return unless @reports_end

          place, one = @assigned.find { |at, found| found.state == :reading && !found.at_end && read?(at, found) }
          return unless place

          one.at_end = true
          [:eof, *place, one.position]
        end

        def read?(place, one) = one.position >= log(place).readable_end(committed: @committed_only)

        def report_revocation(places, lost: false)
          return if places.empty?

          token = Object.new
          places.each do |place|
            @assigned[place].batches.begin
            lost ? @assigned.delete(place) : @assigned[place].state = :revoked
          end
          @revocations[token] = places
          @events << [:revoked, token, places, lost]
        end

        def commit_mark(place)
          one = @assigned[place]
          return unless one&.mark

          @broker.commit_offset(@group, place, *one.mark)
          one.mark = nil
        end
      end
    end
  end
end
