# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/native"
require_relative "assigned_partition"

module Pelton
  module Testing
    module Memory
      # Replaces a native subscription: reads the logs of a Broker. Batches are native, so messages are decoded and
      # filtered as always. `poll` never waits. It is the only member of its group; a test takes its partitions by
      # `take_away` and gives them back by `give`. Used by one thread at a time.
      class Subscription
        # As for Native::Subscription. The session finds it by its name.
        def self.new(name, ...) = super.tap { |client| Memory.session.subscriptions[name] = client }

        #: (String, Hash[String, String], Hash[Symbol, untyped]) -> void
        def initialize(name, settings, options)
          Native.check_options(settings)
          @name = name
          @group = settings["group.id"]
          @reset = settings.fetch("auto.offset.reset", "largest")
          @all = settings["isolation.level"] == "read_uncommitted"
          @reports_end = settings["enable.partition.eof"].to_s == "true"
          @options = options
          @limits = options.fetch(:max_messages, 100), options.fetch(:max_batch_bytes, 1 << 20)
          @broker = Memory.broker(settings)
          @closed = false
          # [topic or Regexp, …]; nil: not subscribed.
          @topics = nil
          # {["orders", 0] => AssignedPartition}
          @assigned = {}
          # Partitions that another member has: {["orders", 0] => true}
          @elsewhere = {}
          # Events that `poll` returns before batches.
          @events = []
          # {token => [["orders", 0], …]}: revocations that were not answered.
          @revocations = {}
          @woken = false
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

        # Without an event, it waits until a message is produced; with the timeout 0 it does not.
        def poll(timeout)
          event = next_event
          return event if event || timeout&.zero? || @woken

          @broker.await(timeout)
          next_event
        ensure
          @woken = false
        end

        def wake
          @woken = true
          @broker.wake
        end

        def revoked(token)
          [*@revocations.delete(token)].each do |pair|
            commit_mark(pair)
            @assigned.delete(pair)
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

        def commit_offset_async(topic, partition, offset) = commit_offset(topic, partition, offset, -1, nil, 0)

        def committed(pairs, _timeout) = pairs.map { |pair| @broker.committed(@group, pair)&.first }
        def committed_with_metadata(pairs, _timeout) = pairs.map { |pair| @broker.committed(@group, pair) }
        def pause(pairs) = pairs.map { |pair| assigned(pair) }.each { |partition| partition.state = :paused }
        def resume(pairs) = pairs.map { |pair| assigned(pair) }.each { |partition| partition.state = :reading }

        def seek(topic, partition, offset, _timeout = nil)
          assigned([topic, partition]).seek(reset([topic, partition], offset))
        end

        def position(topic, partition) = assigned([topic, partition]).position
        def lost? = false
        def assignment = @assigned.keys

        def partition_count(topic, _timeout)
          raise Native.error(3) unless @broker.topic?(topic) || Memory.session.topic?(topic)

          @broker.partition_count(topic)
        end

        def watermarks(topic, partition, _timeout) = [0, log([topic, partition]).end_offset]
        def unconfirmed = []
        def shorten_deadline(_timeout) = nil
        def closed? = @closed

        def ends
          check_open
          @assigned.map { |pair, partition| [*pair, partition.position, partition.end_offset, partition.position] }
        end

        # A time of −1 is the end.
        def offsets_for_times(rows, _timeout)
          rows.map do |*pair, time|
            next log(pair).readable_end(committed: !@all) if time == -1

            log(pair).from(0, committed: !@all).find { |entry| entry.timestamp_ms >= time }&.offset
          end
        end

        def close(_timeout)
          commit_marks
          @assigned.each_value(&:end_reading)
          @assigned.clear
          @closed = true
          wake
          true
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
        def take_away(pairs, lost: false)
          pairs.each { |pair| @elsewhere[pair] = true }
          report_revocation(pairs & @assigned.keys, lost: lost)
        end

        # The group gives these partitions back to this member.
        #: (Array[[String, Integer]]) -> void
        def give(pairs) = pairs.each { |pair| @elsewhere.delete(pair) }

        # What marked offsets are committed periodically.
        def commit_marks = @assigned.each_key { |pair| commit_mark(pair) }

        private

        def check_open = @closed && raise(ClosedError, "subscription #{@name}")

        def log((topic, number)) = @broker.log(topic, number) || @broker.create(topic, number + 1).fetch(number)

        def assigned(pair)
          check_open
          @assigned[pair] || raise(KafkaError.new(-172, :_STATE, "#{pair.join("/")} is not assigned to this " \
                                                                 "subscription"))
        end

        # Reports partitions that are new to it.
        def find_partitions
          pairs = wanted.flat_map { |topic| (0...@broker.partition_count(topic)).map { |number| [topic, number] } }
          fresh = pairs.reject { |pair| @assigned.key?(pair) || @elsewhere.key?(pair) }
          return if fresh.empty?

          fresh.each { |pair| add(pair, resolved(pair, -1001)) }
          @events << [:assigned, fresh]
        end

        def wanted
          @topics.flat_map { |topic| topic.is_a?(Regexp) ? @broker.topics.grep(topic) : topic }.uniq
        end

        def add(pair, offset)
          format, condition = %i[decode where].map { |name| option(name, pair.first) }
          @assigned[pair] = AssignedPartition.new(log(pair), offset, format, condition, all: @all)
        end

        def option(name, topic)
          table = @options[name] || {}
          table.fetch(topic) { table["*"] }
        end

        # The offset of a position as librdkafka writes it.
        def resolved(pair, offset)
          case offset
          when -1 then log(pair).end_offset
          when -2 then 0
          when -1001 then @broker.committed(@group, pair)&.first || beginning(pair)
          else reset(pair, offset)
          end
        end

        # An offset that does not exist: auto.offset.reset decides.
        def reset(pair, offset) = offset > log(pair).end_offset ? beginning(pair) : offset

        def beginning(pair) = %w[smallest earliest beginning].include?(@reset) ? 0 : log(pair).end_offset

        def next_event
          return [:closed] if @closed

          find_partitions if @topics
          @events.shift || batch || at_end
        end

        # In turns: the partition that is read comes last the next time.
        def batch
          @assigned.to_a.each do |pair, partition|
            next unless partition.reading? && (batch = partition.batch(*@limits))

            @assigned[pair] = @assigned.delete(pair)
            return [:batch, batch]
          end
          nil
        end

        def at_end
          pair, partition = @assigned.find { |_, found| found.reading? && found.report_end? } if @reports_end
          [:eof, *pair, partition.position] if pair
        end

        def report_revocation(pairs, lost: false)
          return if pairs.empty?

          token = Object.new
          pairs.each do |pair|
            @assigned[pair].end_reading
            lost ? @assigned.delete(pair) : @assigned[pair].state = :revoked
          end
          @revocations[token] = pairs
          @events << [:revoked, token, pairs, lost]
        end

        def commit_mark(pair)
          partition = @assigned[pair]
          return unless partition&.mark

          @broker.commit_offset(@group, pair, *partition.mark)
          partition.mark = nil
        end
      end
    end
  end
end
