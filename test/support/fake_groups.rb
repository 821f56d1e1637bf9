# frozen_string_literal: true

require "pelton/errors"

module Fakes
  # The groups and logs of a cluster behind the fake of Native::Admin (AdminKit). Requests change them as Kafka would.
  class Groups
    # logs: {["orders", 0] => 10...59}. commits: {"billing" => {["orders", 0] => [42, "metadata"]}}.
    # members: {"billing" => [["id", "client", nil, "/host", [["orders", 0]]]]}. types: {"billing" => "Consumer"}.
    # times: {["orders", 0] => {1_700_000_000_000 => 17}}.
    attr_reader :logs, :commits, :members, :types, :times

    def initialize
      @logs = {}
      @commits = {}
      @members = {}
      @types = Hash.new("Classic")
      @times = Hash.new({})
    end

    # {kind => lambda}, for AdminKit's @answers.
    def answers
      kinds = %i[groups describe_groups group_offsets alter_group_offsets delete_group_offsets delete_group offsets
                 topics]
      { names: names, **kinds.to_h { |kind| [kind, method(kind)] } }
    end

    def names = @logs.keys.map(&:first).uniq

    def offsets_of(id) = @commits.fetch(id).transform_values(&:first)

    private

    def ids = @commits.keys | @members.keys

    def state(id)
      return "Dead" unless ids.include?(id)

      @members.key?(id) ? "Stable" : "Empty"
    end

    def error(code, name, reason) = ::Pelton::KafkaError.new(code, name, reason)

    def groups(_) = [ids.map { |id| [id, state(id), @types[id]] }, []]

    def describe_groups(ids)
      ids.map do |id|
        members = @members.fetch(id, []).map do |*columns, places|
          [*columns, places.map { |place| [*place, -1, "", nil] }]
        end
        [id, nil, state(id), @types[id], members.empty? ? "" : "range", 1, members]
      end
    end

    def topics(asked)
      asked.map do |name|
        numbers = @logs.keys.filter_map { |topic, number| number if topic == name }
        unknown = error(3, :UNKNOWN_TOPIC_OR_PART, "Unknown topic") if numbers.empty?
        [name, unknown, false, numbers.map { |number| [number, 1, [1], [1]] }]
      end
    end

    # −1 is the end, −2 the beginning, another number a time.
    def offsets((places, _))
      places.map do |topic, number, position|
        log = @logs[[topic, number]]
        next [topic, number, -1, -1, error(3, :UNKNOWN_TOPIC_OR_PART, "Unknown")] unless log

        offset = { -1 => log.end, -2 => log.begin }.fetch(position) do
          @times[[topic, number]].find { |time, _| time >= position }&.last || -1
        end
        [topic, number, offset, -1, nil]
      end
    end

    def group_offsets(id)
      rows = @commits.fetch(id, {}).map { |place, (offset, metadata)| [*place, offset, metadata, nil] }
      [[id, nil, rows]]
    end

    def alter_group_offsets((id, rows, metadata))
      refused = error(25, :UNKNOWN_MEMBER_ID, "Broker: Unknown member") if @members.key?(id)
      unless refused
        rows.zip(metadata) { |(*place, offset), text| (@commits[id] ||= {})[place] = [offset, text] }
      end
      [[id, nil, rows.map { |row| [*row, "", refused] }]]
    end

    def delete_group_offsets((id, rows))
      subscribed = @members.fetch(id, []).flat_map(&:last).map(&:first)
      rows = rows.map do |topic, number, _|
        refused = error(86, :GROUP_SUBSCRIBED_TO_TOPIC, "Broker: subscribed") if subscribed.include?(topic)
        @commits[id].delete([topic, number]) unless refused
        [topic, number, -1001, "", refused]
      end
      [[id, nil, rows]]
    end

    def delete_group(id)
      refused = error(68, :NON_EMPTY_GROUP, "Broker: The group is not empty") if @members.key?(id)
      refused ||= error(69, :GROUP_ID_NOT_FOUND, "Broker: The group id does not exist") unless @commits.key?(id)
      @commits.delete(id) unless refused
      [[id, refused, []]]
    end
  end
end
