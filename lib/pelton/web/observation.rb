# frozen_string_literal: true

require_relative "../errors"
require_relative "../logging/numbers"
require_relative "../offsets/markers"
require_relative "../runtime/clock"
require_relative "../runtime/threads"

module Pelton
  class Web
    # What the cluster said at one moment: topics, ends of partitions, groups and their commits. Frozen.
    class Observation
      # Kafka's own topics.
      INTERNAL = /\A__/
      UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION _NOENT].freeze
      # Groups of one question: librdkafka remembers 11 coordinators, and asks for each other one before each question.
      # Questions about commits at a time; seconds for the end of their threads.
      GROUPS = 10
      AT_ONCE = 8
      CLOSE = 5
      private_constant :INTERNAL, :UNKNOWN, :GROUPS, :CLOSE

      # at: seconds since 1970. cluster: Admin::ClusterDescription. topics: {"orders" => Admin::TopicDescription}.
      # ends: {["orders", 0] => 59}. groups: {"billing" => Admin::GroupDescription}. commits: {"billing" => {["orders",
      # 0] => 42}}.
      attr_reader :at, :cluster, :topics, :ends, :groups, :commits

      # Asks Kafka. Raises KafkaError. timeout: seconds that Kafka has for each answer, longest: for all of them. A
      # cluster with many groups takes long, and a broker that is away gives no answer.
      #: (Admin, timeout: Numeric, longest: Numeric) -> Observation
      def self.take(admin, timeout:, longest:)
        deadline = Clock.deadline(longest)
        left = -> { { timeout: [timeout, Clock.left(deadline)].min } }
        topics = admin.topics(**left.call).reject { |name, topic| topic.internal || name.match?(INTERNAL) }
        groups, commits = groups(admin, left)
        ends = ends(admin, topics, left)
        new(cluster: admin.cluster(**left.call), topics: topics, ends: ends, groups: groups, commits: commits)
      end

      # Groups and their commits. librdkafka cannot ask about the group without a name, which clients before 2019 have
      # left.
      def self.groups(admin, left)
        states = admin.groups(**left.call).reject { |id, _| id.empty? }
        states.keys.each_slice(GROUPS).with_object([{}, {}]) do |some, (groups, commits)|
          groups.update(described(states.slice(*some)) { |ids| admin.describe_groups(*ids, **left.call) })
          commits.update(commits(some) { |id| admin.group_offsets(id, **left.call).compact })
        end
      end
      private_class_method :groups

      # The list of groups says which are empty. A question about them would tell nothing more that pages show.
      def self.described(states)
        empty, others = states.partition { |_, state| state == :empty }.map { |some| some.map(&:first) }
        found = empty.to_h { |id| [id, Admin::GroupDescription.new(id: id, state: :empty, members: [])] }
        found.update(yield(others)) if others.any?
        found.slice(*states.keys)
      end
      private_class_method :described

      # librdkafka asks about one group at a time, so several threads ask. The first error ends all.
      def self.commits(ids, &ask)
        left = Thread::Queue.new.tap { |queue| ids.each { |id| queue << id } }.close
        found = Thread::Queue.new
        problem = nil
        failed = ->(error) { (problem ||= error) && left.clear }
        threads = []
        [ids.size, AT_ONCE].min.times do
          threads << Threads.start("pelton.web.commits", report: failed) do
            while (id = left.pop)
              found << [id, ask.call(id)]
            end
          end
        end
        Threads.join(threads)
        raise problem if problem

        Array.new(found.size) { found.pop }.to_h.slice(*ids)
      ensure # also if the look is killed
        left.clear
        Threads.join(threads.each(&:kill), CLOSE)
      end
      private_class_method :commits

      # A topic that was deleted since has no end.
      def self.ends(admin, topics, left)
        led = topics.flat_map { |name, topic| [name].product(topic.partitions.select(&:leader).map(&:number)) }
        admin.offsets(led.product([:end]).to_h, committed: false, **left.call).compact
      rescue KafkaError => e
        raise unless UNKNOWN.include?(e.name)

        {}
      end
      private_class_method :ends

      #: (cluster: Admin::ClusterDescription, topics: Hash[String, Admin::TopicDescription],
      #:  ends: Hash[[String, Integer], Integer], groups: Hash[String, Admin::GroupDescription],
      #:  commits: Hash[String, Hash[[String, Integer], Integer]], ?at: Float,
      #:  ?none: Array[[[String, Integer], Integer, Integer]]) -> void
      def initialize(cluster:, topics:, ends:, groups:, commits:, at: Clock.wall, none: [])
        @at = at
        # {[["orders", 0], commit, end] => true}: lags that are none.
        @none = none.to_h { |span| [span, true] }
        @cluster = cluster
        @topics = topics
        @ends = ends
        @groups = groups
        @commits = commits
        @lags = commits.transform_values { |all| lags_of(all) }
        @sums = @lags.transform_values { |lags| lags.each_value.sum unless lags.empty? }
        @owners = groups.transform_values { |group| owners_of(group) }
        @uncommitted = @owners.to_h { |id, owners| [id, (owners.keys - commits.fetch(id, {}).keys).size] }
        freeze
      end

      # The small lags of all groups, see Offsets::Markers: [[["orders", 0], commit, end], …].
      #: () -> Array[[[String, Integer], Integer, Integer]]
      def spans = commits.each_value.flat_map { |all| Offsets::Markers.spans(all, ends) }.uniq

      # The same, but no message waits in these partitions between the commit and the end: [[["orders", 0], 42, 43], …].
      #: (Array[[[String, Integer], Integer, Integer]]) -> Observation
      def without(none)
        Observation.new(cluster: cluster, topics: topics, ends: ends, groups: groups, commits: commits, at: at,
                        none: none)
      end

      # {["orders", 0] => 17}: of the partitions in which the group has a commit, and which exist.
      #: (String) -> Hash[[String, Integer], Integer]
      def lags(group) = @lags.fetch(group, {})

      # The sum of these; nil: the group has no commit.
      #: (String) -> Integer?
      def lag(group) = @sums[group]

      # How many partitions members have in which the group has no commit. The messages that wait there cannot be
      # counted, so the sum lacks them.
      #: (String) -> Integer
      def uncommitted(group) = @uncommitted.fetch(group, 0)

      # {["orders", 0] => Admin::Member}
      #: (String) -> Hash[[String, Integer], Admin::Member]
      def owners(group) = @owners.fetch(group, {})

      # What needs attention: [[what, kind, name], …], such as ["orders/3 has no leader", :topic, "orders"]. Of groups,
      # the largest lags come first.
      #: () -> Array[[String, Symbol, String]]
      def problems
        groups = @groups.keys.sort_by.with_index { |id, at| [-lag(id).to_i, at] }
        @topics.each_value.flat_map { |topic| of_topic(topic) } + groups.flat_map { |id| of_group(id) }
      end

      private

      def lags_of(commits)
        commits.each_with_object({}) do |(topic_partition, offset), lags|
          last = @ends[topic_partition]
          lags[topic_partition] = @none[[topic_partition, offset, last]] ? 0 : [last - offset, 0].max if last
        end
      end

      def owners_of(group)
        group.members.each_with_object({}) do |member, owners|
          member.partitions.each { |topic_partition| owners[topic_partition] = member }
        end
      end

      def of_topic(topic)
        topic.partitions.filter_map do |partition|
          name = "#{topic.name}/#{partition.number}"
          if partition.leader.nil? then ["#{name} has no leader", :topic, topic.name]
          elsif partition.in_sync.size < partition.replicas.size
            ["#{name} has #{partition.in_sync.size} of #{partition.replicas.size} replicas in sync", :topic, topic.name]
          end
        end
      end

      def wait(count) = count == 1 ? "1 message waits" : "#{Numbers.whole(count)} messages wait"

      def of_group(id)
        waiting = lags(id).select { |_, lag| lag.positive? }
        return [] if waiting.empty?
        return [["#{id} has no members and #{wait(waiting.values.sum)}", :group, id]] if owners(id).empty?

        (waiting.keys - owners(id).keys).map { |pair| ["#{id}: #{pair.join("/")} has no owner", :group, id] }
      end
    end
  end
end
