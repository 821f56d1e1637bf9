# frozen_string_literal: true

require_relative "admin/connection"
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
    end

    # Creates a topic. partitions, replicas: nil means the broker's default. config: the topic's own settings.
    #   Pelton.admin.create_topic("orders", partitions: 4, replicas: 3, config: { "retention.ms" => 86_400_000 })
    # Raises KafkaError TOPIC_ALREADY_EXISTS if it exists. Brokers learn about the topic a moment later.
    #: (String, ?partitions: Integer?, ?replicas: Integer?, ?config: Hash[String, untyped], ?timeout: Numeric?) -> void
    def create_topic(name, partitions: 1, replicas: nil, config: {}, timeout: TIMEOUT)
      change(:create_topic, Requests.new_topic(name, partitions, replicas, config), timeout)
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
      names = @connection.topics(timeout) if names.empty?
      names.empty? ? {} : ask(:topics, names, Clock.left(deadline)) { |rows| Responses.topics(rows) }
    end

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
    def groups(timeout: TIMEOUT) = ask(:groups, nil, timeout) { |rows| Responses.groups(rows) }

    # Describes a group and its members. The state of an unknown group is :dead.
    #   Pelton.admin.group("billing").members.map(&:client_id) # => ["billing"]
    #: (String, ?timeout: Numeric?) -> GroupDescription
    def group(id, timeout: TIMEOUT)
      ask(:describe_groups, [Requests::GROUP.check(id)], timeout) { |rows| Responses.group(rows) }
    end

    # Deletes a group with its committed offsets. It must have no members.
    #   Pelton.admin.delete_group("billing")
    #: (String, ?timeout: Numeric?) -> void
    def delete_group(id, timeout: TIMEOUT) = change(:delete_group, Requests::GROUP.check(id), timeout)

    # The committed offsets of a group.
    #   Pelton.admin.group_offsets("billing") # => { ["orders", 0] => 42 }
    #: (String, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def group_offsets(id, timeout: TIMEOUT)
      ask(:group_offsets, Requests::GROUP.check(id), timeout) { |rows| Responses.offsets(Responses.only(rows)[2]) }
    end

    # Sets the offsets at which the group continues. It must have no members.
    #   Pelton.admin.alter_group_offsets("billing", { ["orders", 0] => 42 })
    #: (String, Hash[[String, Integer], Integer], ?timeout: Numeric?) -> void
    def alter_group_offsets(id, offsets, timeout: TIMEOUT)
      rows = Requests.positions(offsets, "an Integer >= 0") { |offset| Requests.offset(offset) }
      change_offsets(:alter_group_offsets, id, rows, timeout)
    end

    # Deletes the group's offsets of these partitions. No member may subscribe to their topics.
    #   Pelton.admin.delete_group_offsets("billing", [["orders", 0]])
    #: (String, Array[[String, Integer]], ?timeout: Numeric?) -> void
    def delete_group_offsets(id, partitions, timeout: TIMEOUT)
      raise ConfigError.new(:partitions, partitions, "expected [[topic, partition], …]") unless partitions.is_a?(Array)

      rows = partitions.map { |partition| [*Requests.partition(partition), 0] }
      change_offsets(:delete_group_offsets, id, rows, timeout)
    end

    # The offset of each position: :beginning, :end, :newest (the largest timestamp), or a Time (the first message that
    # is not older; nil if all are older).
    #   Pelton.admin.offsets({ ["orders", 0] => :end }) # => { ["orders", 0] => 59 }
    # committed: true ends before the first open transaction, like consumers with read_committed.
    #: (Hash[[String, Integer], Symbol | Time], ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def offsets(positions, committed: true, timeout: TIMEOUT)
      rows = Requests.positions(positions, ":beginning, :end, :newest or a Time") { |position| Requests.time(position) }
      rows.empty? ? {} : ask(:offsets, [rows, !!committed], timeout) { |found| Responses.offsets(found) }
    end

    # Number of offsets between the group's commit and the end, per partition with a commit. Asks two questions, one
    # after the other, so messages that are produced meanwhile count.
    #   Pelton.admin.lag("billing") # => { ["orders", 0] => 17 }
    # committed: as in `offsets`.
    #: (String, ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer]
    def lag(id, committed: true, timeout: TIMEOUT)
      deadline = Clock.deadline(timeout)
      done = group_offsets(id, timeout: timeout).compact
      ends = offsets(done.transform_values { :end }, committed: committed, timeout: Clock.left(deadline))
      ends.to_h { |partition, offset| [partition, [offset.to_i - done.fetch(partition), 0].max] }
    end

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

    def change_offsets(kind, id, rows, timeout)
      return Requests::GROUP.check(id) && nil if rows.empty?

      ask(kind, [Requests::GROUP.check(id), rows], timeout) { |found| Responses.offsets(Responses.only(found)[2]) }
      nil
    end

    def ask(...) = @connection.request(...)
  end
end
