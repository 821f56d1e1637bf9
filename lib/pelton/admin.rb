# frozen_string_literal: true

module Pelton
  class Admin
    # Named before its parts are loaded: otherwise its autoload would load this file again.
  end
end

require_relative "admin/connection"
require_relative "admin/groups"
require_relative "admin/requests"
require_relative "admin/responses"
require_relative "runtime/clock"
require_relative "config"
require_relative "errors"
require_relative "runtime/event_dispatch"
require_relative "runtime/notifications"
require_relative "runtime/threads"

module Pelton
  # Changes and reports topics, groups, offsets, settings and access rules.
  #   Pelton.admin.create_topic("orders", partitions: 4, config: { "retention.ms" => 86_400_000 })
  #   Pelton.admin.lag("billing") # => { ["orders", 0] => 17, … }
  # Each call waits for Kafka's answer, up to `timeout` seconds (30 s): without the GVL, interruptibly, and under a
  # Fiber.scheduler only the fiber waits. All methods are callable from every thread. The native client opens with the
  # first call; a forked child opens its own. It has no thread of its own.
  #
  # Raises KafkaError with Kafka's own name and code for a refusal, or _TIMED_OUT without an answer. After _TIMED_OUT,
  # the change may still have happened. Raises ConfigError for wrong arguments, and ClosedError.
  class Admin
    TIMEOUT = 30
    private_constant :TIMEOUT

    # The client's name in events.
    #   Pelton.admin.name # => "pelton.admin#1"
    #: () -> String
    attr_reader :name

    # Pelton.admin and App#admin make one for you. kafka: options of librdkafka for this client.
    #: (Config, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, bus: Notifications.new, native: nil, kafka: {})
      @name = EventDispatch.client_name("#{config.client_id}.admin")
      @connection = Connection.new(@name, config, bus, kafka, native)
      @groups = Groups.new(self, @connection)
    end

    # Creates a topic. partitions, replication_factor: nil means the broker's default. `replication:` and `replicas:`
    # are other names of `replication_factor:`. config: the topic's own settings.
    #   Pelton.admin.create_topic("orders", partitions: 4, replication_factor: 3, config: { "retention.ms" => 1000 })
    # Raises KafkaError TOPIC_ALREADY_EXISTS if it exists. Brokers learn about the topic a moment later.
    #: (String, ?partitions: Integer?, ?replication_factor: Integer?, ?config: Hash[String, untyped],
    #:  ?timeout: Numeric?, ?replication: Integer?, ?replicas: Integer?) -> void
    def create_topic(name, partitions: 1, replication_factor: nil, config: {}, timeout: TIMEOUT, replication: nil,
                     replicas: nil)
      names = { replication_factor: replication_factor, replication: replication, replicas: replicas }
      change(:create_topic, Requests.new_topic(name, partitions, names, config), timeout)
    end

    # Deletes a topic with all its messages.
    #   Pelton.admin.delete_topic("orders")
    #: (String, ?timeout: Numeric?) -> void
    def delete_topic(name, timeout: TIMEOUT) = change(:delete_topic, Requests::TOPIC.check(name), timeout)

    # Adds partitions. count: how many the topic has then in all. Keys go to other partitions afterwards.
    #   Pelton.admin.create_partitions("orders", 8)
    #: (String, Integer, ?timeout: Numeric?) -> void
    def create_partitions(topic, count, timeout: TIMEOUT)
      change(:create_partitions, [Requests::TOPIC.check(topic), Requests.count(count)], timeout)
    end

    # Describes these topics, or all: {"orders" => #<struct Pelton::Admin::TopicDescription …>}.
    #   Pelton.admin.topics("orders").fetch("orders").partitions.first.in_sync # => [1]
    # Raises KafkaError UNKNOWN_TOPIC_OR_PART for a topic that does not exist.
    #: (*String, ?timeout: Numeric?) -> Hash[String, TopicDescription]
    def topics(*names, timeout: TIMEOUT)
      names.each { |name| Requests::TOPIC.check(name) }
      deadline = Clock.deadline(timeout)
      asked = names.empty? ? @connection.topics(timeout) : names
      return {} if asked.empty?

      ask(:topics, asked, Clock.left(deadline)) { |rows| Responses.topics(rows, all: names.empty?) }
    end

    # The names of all topics, internal ones included.
    #   Pelton.admin.topic_names # => ["orders", "payments"]
    #: (?timeout: Numeric?) -> Array[String]
    def topic_names(timeout: TIMEOUT) = @connection.topics(timeout)

    # Describes the cluster: its id, controller and brokers.
    #   Pelton.admin.cluster.brokers.map(&:host) # => ["kafka-1", "kafka-2"]
    #: (?timeout: Numeric?) -> ClusterDescription
    def cluster(timeout: TIMEOUT) = ask(:cluster, nil, timeout) { |rows| Responses.cluster(rows) }

    # The settings of a topic or of a broker: {"retention.ms" => #<struct Pelton::Admin::Option …>}.
    #   Pelton.admin.config(topic: "orders").fetch("retention.ms").value # => "86400000"
    #: (?topic: String?, ?broker: Integer?, ?timeout: Numeric?) -> Hash[String, Option]
    def config(topic: nil, broker: nil, timeout: TIMEOUT)
      ask(:config, Requests.resource(topic, broker), timeout) { |rows| Responses.options(rows) }
    end

    # Changes these settings of a topic or of a broker, and no others. nil resets a setting.
    #   Pelton.admin.alter_config({ "retention.ms" => 1000, "cleanup.policy" => nil }, topic: "orders")
    #: (Hash[String, untyped], ?topic: String?, ?broker: Integer?, ?timeout: Numeric?) -> void
    def alter_config(changes, topic: nil, broker: nil, timeout: TIMEOUT)
      whose = Requests.resource(topic, broker)
      change(:alter_config, [whose, Requests.options(changes, deletes: true)], timeout)
    end

    # All groups and their states.
    #   Pelton.admin.groups # => { "billing" => :stable, "old" => :empty }
    #: (?timeout: Numeric?) -> Hash[String, Symbol]
    def groups(timeout: TIMEOUT) = @groups.states(timeout)

    # Describes these groups, or all: {"billing" => #<struct Pelton::Admin::GroupDescription …>}.
    #   Pelton.admin.describe_groups.select { |_, group| group.type == :consumer }.keys # => ["billing"]
    # The state of an unknown group is :dead.
    #: (*String, ?timeout: Numeric?) -> Hash[String, GroupDescription]
    def describe_groups(*ids, timeout: TIMEOUT) = @groups.describe(ids, timeout)

    # Describes a group and its members. The state of an unknown group is :dead.
    #   Pelton.admin.group("billing").members.map(&:client_id) # => ["billing"]
    #: (String, ?timeout: Numeric?) -> GroupDescription
    def group(id, timeout: TIMEOUT) = @groups.describe([id], timeout).each_value.first

    # Deletes a group with its committed offsets. It must have no live members.
    #   Pelton.admin.delete_group("billing")
    #: (String, ?timeout: Numeric?) -> void
    def delete_group(id, timeout: TIMEOUT) = @groups.delete(id, timeout)

    # The committed offsets of a group. An unknown group has none.
    #   Pelton.admin.group_offsets("billing") # => { ["orders", 0] => 42 }
    #: (String, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def group_offsets(id, timeout: TIMEOUT) = @groups.commits(id, timeout).transform_values { |commit| commit&.offset }

    # The committed offsets of a group with their metadata: {["orders", 0] => #<struct Pelton::Admin::Commit …>}.
    #   Pelton.admin.group_commits("billing").fetch(["orders", 0]).metadata # => "checkpoint 17"
    #: (String, ?timeout: Numeric?) -> Hash[[String, Integer], Commit?]
    def group_commits(id, timeout: TIMEOUT) = @groups.commits(id, timeout)

    # Sets the offsets at which the group continues: Integers, or positions as in `offsets`. A Time after the last
    # message means the end. The group must have no live members; one that does not exist is created.
    #   Pelton.admin.alter_group_offsets("billing", { ["orders", 0] => 42, ["orders", 1] => :beginning })
    #: (String, Hash[[String, Integer], Integer | Symbol | Time], ?timeout: Numeric?) -> void
    def alter_group_offsets(id, offsets, timeout: TIMEOUT) = @groups.alter(id, offsets, timeout)

    # Moves the committed offsets of a group to a position, and returns an OffsetChange for each partition. Give `to:`
    # (an Integer, or a position as in `offsets`) or `by:` (a number of offsets; < 0 moves back). topics: names, or
    # names with partitions; nil means all topics for which the group has commits. Offsets outside of the log become its
    # beginning or end. dry_run: true changes nothing.
    #   Pelton.admin.reset_group_offsets("billing", to: Time.now - 3600, topics: { "orders" => [0] }, dry_run: true)
    # The group must have no live members. It is created if it does not exist and `topics:` is given.
    #: (String, ?to: Integer | Symbol | Time | nil, ?by: Integer?, ?dry_run: bool, ?timeout: Numeric?,
    #:  ?topics: String | Array[String] | Hash[String, Array[Integer]?] | nil) -> Hash[[String, Integer], OffsetChange]
    def reset_group_offsets(id, to: nil, by: nil, topics: nil, dry_run: false, timeout: TIMEOUT)
      @groups.reset(id, { to: to, by: by, topics: topics }, dry_run, timeout)
    end

    # Copies the committed offsets and their metadata of one group to another, which is created if it does not exist and
    # must have no live members. Returns an OffsetChange for each partition. topics: as in `reset_group_offsets`.
    # overwrite: true replaces offsets that the other group has; without it, they are an error. dry_run: true changes
    # nothing.
    #   Pelton.admin.copy_group_offsets("billing", "billing-v2")
    #: (String, String, ?overwrite: bool, ?dry_run: bool, ?timeout: Numeric?,
    #:  ?topics: String | Array[String] | Hash[String, Array[Integer]?] | nil) -> Hash[[String, Integer], OffsetChange]
    def copy_group_offsets(from, to, topics: nil, overwrite: false, dry_run: false, timeout: TIMEOUT)
      @groups.copy(from, to, { topics: topics, overwrite: overwrite }, dry_run, timeout)
    end

    # Deletes the group's offsets of these partitions. No live member may subscribe to their topics.
    #   Pelton.admin.delete_group_offsets("billing", [["orders", 0]])
    #: (String, Array[[String, Integer]], ?timeout: Numeric?) -> void
    def delete_group_offsets(id, partitions, timeout: TIMEOUT) = @groups.delete_offsets(id, partitions, timeout)

    # The offset of each position: :beginning, :end, :newest (the largest timestamp), or a Time (the first message that
    # is not older; nil if all are older).
    #   Pelton.admin.offsets({ ["orders", 0] => :end }) # => { ["orders", 0] => 59 }
    # committed: true ends before the first open transaction, like consumers with read_committed.
    #: (Hash[[String, Integer], Symbol | Time], ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def offsets(positions, committed: true, timeout: TIMEOUT)
      rows = Requests.positions(positions, ":beginning, :end, :newest or a Time") { |position| Requests.time(position) }
      rows.empty? ? {} : ask(:offsets, [rows, !!committed], timeout) { |found| Responses.offsets(found) }
    rescue KafkaError => e
      raise e.name == :_NOENT ? Responses.nowhere(rows, e) : e
    end

    # Number of offsets between the group's commit and the end, per partition. nil for a partition that a member has
    # without a commit, for example if its first message fails. Asks one question after the other, so messages that are
    # produced meanwhile count.
    #   Pelton.admin.lag("billing").values.sum(&:to_i) # => 17
    # committed: as in `offsets`. Raises KafkaError GROUP_ID_NOT_FOUND for an unknown group.
    #: (String, ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def lag(id, committed: true, timeout: TIMEOUT) = @groups.lag(id, committed, timeout)

    # Deletes all messages before these offsets; :end deletes all. Returns the oldest offsets that are left.
    #   Pelton.admin.delete_records({ ["orders", 0] => 42 }) # => { ["orders", 0] => 42 }
    #: (Hash[[String, Integer], Integer | Symbol], ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def delete_records(before, timeout: TIMEOUT)
      all = { end: -1 }
      rows = Requests.positions(before, "an Integer >= 0 or :end") { |to| all[to] || Requests.offset(to) }
      rows.empty? ? {} : ask(:delete_records, rows, timeout) { |found| Responses.offsets(found) }
    end

    # Adds an access rule. The resource is topic:, group: or transactional_id: with a name, or cluster: true. With
    # pattern: :prefixed, the name is a prefix.
    #   Pelton.admin.create_acl(principal: "User:alice", operation: :read, topic: "orders")
    #: (principal: String, operation: Symbol, ?permission: Symbol, ?host: String, ?pattern: Symbol, ?timeout: Numeric?,
    #:  **untyped) -> void
    def create_acl(principal:, operation:, permission: :allow, host: "*", pattern: :literal, timeout: TIMEOUT,
                   **resource)
      rule = Requests.acl(principal, operation, permission, host, pattern, resource)
      ask(:create_acl, rule, timeout) { |errors| Responses.only(errors.map { |error| [nil, error] }) }
      nil
    end

    # The access rules that match. A missing argument matches anything.
    #   Pelton.admin.acls(principal: "User:alice").map(&:operation) # => [:read]
    #: (?principal: String?, ?operation: Symbol?, ?permission: Symbol?, ?host: String?, ?pattern: Symbol?,
    #:  ?timeout: Numeric?, **untyped) -> Array[Acl]
    def acls(principal: nil, operation: nil, permission: nil, host: nil, pattern: nil, timeout: TIMEOUT, **resource)
      filter = Requests.acl_filter(principal, operation, permission, host, pattern, resource)
      ask(:acls, filter, timeout) { |rows| Responses.acls(rows) }
    end

    # Deletes the access rules that match and returns them. Without arguments, it deletes all of them.
    #   Pelton.admin.delete_acls(principal: "User:alice")
    #: (?principal: String?, ?operation: Symbol?, ?permission: Symbol?, ?host: String?, ?pattern: Symbol?,
    #:  ?timeout: Numeric?, **untyped) -> Array[Acl]
    def delete_acls(principal: nil, operation: nil, permission: nil, host: nil, pattern: nil, timeout: TIMEOUT,
                    **resource)
      filter = Requests.acl_filter(principal, operation, permission, host, pattern, resource)
      ask(:delete_acls, filter, timeout) { |rows| Responses.acls(Responses.only(rows, error: 0)[1]) }
    end

    # Closes the client. Calls that still wait raise KafkaError (_DESTROY). Returns false if that takes longer than
    # `timeout` seconds. App#close calls it.
    #   Pelton.admin.close # => true
    # Callable from every thread and trap, and more than once.
    #: (?timeout: Numeric?) -> bool
    def close(timeout: TIMEOUT)
      Threads.outside_trap("pelton.close", timeout: timeout) { @connection.close(timeout) } || false
    end

    # Has `close` been called?
    #   Pelton.admin.closed? # => false
    #: () -> bool
    def closed? = @connection.closed?

    def inspect = "#<#{self.class} #{@name}#{" closed" if closed?}>"

    private

    def change(kind, argument, timeout)
      ask(kind, argument, timeout) { |rows| Responses.only(rows) }
      nil
    end

    def ask(...) = @connection.request(...)
  end
end
