# frozen_string_literal: true

require_relative "requests"
require_relative "responses"
require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Admin
    # Requests about groups and their offsets.
    class Groups
      # What Kafka answers when a group's live members forbid a change.
      LIVE = %i[UNKNOWN_MEMBER_ID NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC].freeze
      # The embedded cluster cannot describe groups.
      UNSUPPORTED = :_UNSUPPORTED_FEATURE
      private_constant :LIVE, :UNSUPPORTED

      #: (Admin, Connection) -> void
      def initialize(admin, connection)
        @admin = admin
        @connection = connection
      end

      #: (Numeric?) -> Hash[String, Symbol]
      def states(timeout) = ask(:groups, nil, timeout) { |rows| Responses.groups(rows) }

      # All groups if there are no ids.
      #: (Array[String], Numeric?) -> Hash[String, GroupDescription]
      def describe(ids, timeout)
        ids = ids.map { |id| Requests::GROUP.check(id) }.uniq
        deadline = Clock.deadline(timeout)
        # librdkafka cannot ask about the group without a name, which clients before 2019 have left.
        ids = states(timeout).keys.reject(&:empty?) if ids.empty?
        return {} if ids.empty?

        ask(:describe_groups, ids, Clock.left(deadline)) { |rows| Responses.group_descriptions(rows) }
      end

      #: (String, Numeric?) -> void
      def delete(id, timeout)
        id = Requests::GROUP.check(id)
        change(id, timeout) { |left| ask(:delete_group, id, left) { |rows| Responses.only(rows) } }
      end

      #: (String, Numeric?) -> Hash[[String, Integer], Commit?]
      def commits(id, timeout)
        ask(:group_offsets, Requests::GROUP.check(id), timeout) { |rows| Responses.commits(Responses.only(rows)[2]) }
      end

      #: (String, Hash[[String, Integer], Integer | Symbol | Time], Numeric?) -> void
      def alter(id, offsets, timeout)
        id = Requests::GROUP.check(id)
        deadline = Clock.deadline(timeout)
        Requests.positions(offsets) { |position| Requests.position(position) }
        commit(id, resolve(offsets, deadline), {}, deadline)
      end

      #: (String, Hash[Symbol, untyped], bool, Numeric?) -> Hash[[String, Integer], OffsetChange]
      def reset(id, given, dry_run, timeout)
        require_relative "offset_changes"
        id = Requests::GROUP.check(id)
        deadline = Clock.deadline(timeout)
        changes = OffsetChanges.new(@admin, self, deadline).reset(id, **given)
        moving = changes.reject { |_, change| change.before == change.after }
        commit(id, moving.transform_values(&:after), {}, deadline) unless dry_run
        changes
      end

      #: (String, String, Hash[Symbol, untyped], bool, Numeric?) -> Hash[[String, Integer], OffsetChange]
      def copy(from, to, given, dry_run, timeout)
        require_relative "offset_changes"
        from, to = [from, to].map { |id| Requests::GROUP.check(id) }
        deadline = Clock.deadline(timeout)
        changes, metadata = OffsetChanges.new(@admin, self, deadline).copy(from, to, **given)
        commit(to, changes.transform_values(&:after), metadata, deadline) unless dry_run
        changes
      end

      #: (String, Array[[String, Integer]], Numeric?) -> void
      def delete_offsets(id, partitions, timeout)
        id = Requests::GROUP.check(id)
        expected = "expected [[topic, partition], …]"
        raise ConfigError.new(:partitions, partitions, expected) unless partitions.is_a?(Array)

        rows = partitions.map { |partition| [*Requests.partition(partition), 0] }
        alter_rows(:delete_group_offsets, id, [rows], timeout)
      end

      #: (String, bool, Numeric?) -> Hash[[String, Integer], Integer?]
      def lag(id, committed, timeout)
        deadline = Clock.deadline(timeout)
        done = commits(id, timeout).compact
        without = owned(id, deadline, known: done.any?) - done.keys
        ends = @admin.offsets(done.transform_values { :end }, committed: committed, timeout: Clock.left(deadline))
        lags = ends.to_h { |partition, offset| [partition, [offset.to_i - done.fetch(partition).offset, 0].max] }
        without.each_with_object(lags) { |partition, all| all[partition] = nil }
      end

      # Raises KafkaError for an unknown group.
      #: (String, Float?) -> void
      def exists(id, deadline) = owned(id, deadline, known: false)

      # Positions as offsets: {["orders", 0] => :end, ["orders", 1] => 7} → {["orders", 0] => 59, ["orders", 1] => 7}.
      #: (Hash[[String, Integer], Integer | Symbol | Time], Float?) -> Hash[[String, Integer], Integer]
      def resolve(positions, deadline)
        asked = positions.reject { |_, position| position.is_a?(Integer) }
        found = @admin.offsets(asked, timeout: Clock.left(deadline))
        # A time after the last message.
        late = found.select { |_, offset| offset.nil? }.transform_values { :end }
        ends = @admin.offsets(late, timeout: Clock.left(deadline))
        positions.merge(found, ends.transform_values(&:to_i))
      end

      private

      # What members have: [["orders", 0], …]. known: the group has commits, so it exists.
      def owned(id, deadline, known:)
        group = describe([id], Clock.left(deadline)).fetch(id)
        return group.members.flat_map(&:partitions) if known || group.state != :dead

        raise KafkaError.new(69, :GROUP_ID_NOT_FOUND, "group #{id} does not exist")
      rescue KafkaError => e
        e.name == UNSUPPORTED ? [] : raise
      end

      # metadata: {["orders", 0] => "a String committed with the offset"}.
      def commit(id, offsets, metadata, deadline)
        rows = offsets.map { |partition, offset| [*partition, offset] }
        texts = offsets.map { |partition, _| metadata.fetch(partition, "") }
        alter_rows(:alter_group_offsets, id, [rows, texts], Clock.left(deadline))
      end

      def alter_rows(kind, id, (rows, *metadata), timeout)
        return if rows.empty?

        change(id, timeout) do |left|
          ask(kind, [id, rows, *metadata], left) { |found| Responses.offsets(Responses.only(found)[2]) }
        end
      end

      # The error names the members that forbid the change.
      def change(id, timeout)
        deadline = Clock.deadline(timeout)
        yield timeout
        nil
      rescue KafkaError => e
        raise unless LIVE.include?(e.name)

        raise Responses.live_members(id, e, members(id, deadline))
      end

      def members(id, deadline)
        describe([id], Clock.left(deadline)).fetch(id).members
      rescue KafkaError
        []
      end

      def ask(...) = @connection.request(...)
    end
    private_constant :Groups
  end
end
