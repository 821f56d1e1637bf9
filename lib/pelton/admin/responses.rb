# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Admin
    # A topic, from Admin#topics. internal: does Kafka use it itself? partitions: a Partition for each, by number.
    #: (name: String, internal: bool, partitions: Array[Partition]) -> void
    TopicDescription = Struct.new(:name, :internal, :partitions, keyword_init: true)
    # A partition of a topic. leader (nil: none now), replicas, in_sync: ids of brokers.
    #: (number: Integer, leader: Integer?, replicas: Array[Integer], in_sync: Array[Integer]) -> void
    Partition = Struct.new(:number, :leader, :replicas, :in_sync, keyword_init: true)
    # The cluster, from Admin#cluster. controller: the id of a broker; nil: unknown.
    #: (id: String?, controller: Integer?, brokers: Array[Broker]) -> void
    ClusterDescription = Struct.new(:id, :controller, :brokers, keyword_init: true)
    # A broker. rack: nil if none is set.
    #: (id: Integer, host: String, port: Integer, rack: String?) -> void
    Broker = Struct.new(:id, :host, :port, :rack, keyword_init: true)
    # A setting of a topic or broker, from Admin#config. source: :default_config, :dynamic_topic_config,
    # :static_broker_config …
    # value: nil if it is secret.
    #: (name: String, value: String?, source: Symbol, read_only: bool, secret: bool) -> void
    Option = Struct.new(:name, :value, :source, :read_only, :secret, keyword_init: true)
    # A group, from Admin#group. state: :stable, :empty, :dead (also if it never existed) … type: its protocol, :classic
    # or :consumer (KIP-848). coordinator: the id of a broker. members: a Member for each.
    #: (id: String, state: Symbol, type: Symbol, assignor: String, coordinator: Integer?, members: Array[Member]) -> void
    GroupDescription = Struct.new(:id, :state, :type, :assignor, :coordinator,
                                  :members, # rubocop:disable Lint/StructNewOverride
                                  keyword_init: true)
    # A member of a group. partitions: [["orders", 0], …]. instance_id: nil without static membership.
    #: (id: String, client_id: String, instance_id: String?, host: String, partitions: Array[[String, Integer]]) -> void
    Member = Struct.new(:id, :client_id, :instance_id, :host, :partitions, keyword_init: true)
    # An offset that a group committed, from Admin#group_commits. metadata: the String committed with it, often "".
    #: (offset: Integer, metadata: String) -> void
    Commit = Struct.new(:offset, :metadata, keyword_init: true)
    # What Admin#reset_group_offsets and #copy_group_offsets do to a partition. before, after: offsets; nil: no commit.
    # moved: the offsets that the group skips (> 0) or repeats (< 0); nil: unknown. bounded: the offset that was asked
    # for lay before the :beginning or after the :end of the log; else nil.
    #: (before: Integer?, after: Integer?, moved: Integer?, bounded: Symbol?) -> void
    OffsetChange = Struct.new(:before, :after, :moved, :bounded, keyword_init: true)
    # An access rule, from Admin#acls. resource: :topic, :group, :cluster (its name is "kafka-cluster") or
    # :transactional_id. pattern: :literal or :prefixed.
    #: (resource: Symbol, name: String, pattern: Symbol, principal: String, host: String, operation: Symbol,
    #:  permission: Symbol) -> void
    Acl = Struct.new(:resource, :name, :pattern, :principal, :host, :operation, :permission, keyword_init: true)

    # Turns native rows (ext/core/src/rd/admin/answers.rs lists their columns) into frozen values. Raises a row's error.
    module Responses
      module_function

      # The rest of an answer's only row: [name, error, rest…] → rest.
      def only(rows, error: 1)
        row = rows.fetch(0)
        raise row[error] if row[error]

        row
      end

      # all: every topic was asked for, so one that was deleted meanwhile is left out.
      def topics(rows, all: false)
        rows = rows.reject { |_, error| error&.name == :UNKNOWN_TOPIC_OR_PART } if all
        rows.to_h do |name, error, internal, partitions|
          raise error.about(name) if error

          list = partitions.map do |number, leader, replicas, in_sync|
            Partition.new(number: number, leader: leader, replicas: replicas, in_sync: in_sync).freeze
          end
          [name, TopicDescription.new(name: name, internal: internal, partitions: list.sort_by(&:number).freeze).freeze]
        end
      end

      def cluster(row)
        id, controller, nodes = row
        brokers = nodes.map do |number, host, port, rack|
          Broker.new(id: number, host: host, port: port, rack: rack).freeze
        end
        ClusterDescription.new(id: id, controller: controller, brokers: brokers.sort_by(&:id).freeze).freeze
      end

      def options(rows)
        only(rows)[2].to_h do |name, value, source, read_only, secret|
          [name, Option.new(name: name, value: value, source: word(source), read_only: read_only,
                            secret: secret).freeze]
        end
      end

      def groups(rows)
        listed, errors = rows
        raise errors.first unless errors.empty?

        listed.to_h { |id, state, type| [id, group_state(state, type)] }
      end

      def group_descriptions(rows)
        rows.to_h do |id, error, state, type, assignor, coordinator, members|
          raise error.about(id) if error

          [id, GroupDescription.new(id: id, state: group_state(state, type), type: word(type), assignor: assignor,
                                    coordinator: coordinator, members: members(members)).freeze]
        end
      end

      # librdkafka has no name for Assigning and Reconciling, which only groups of the new protocol have.
      def group_state(state, type) = state == "Unknown" && type == "Consumer" ? :rebalancing : word(state)

      def members(rows)
        rows.map do |id, client, instance, host, topic_partitions|
          Member.new(id: id, client_id: client, instance_id: instance, host: host,
                     partitions: topic_partitions.map { |row| row.first(2) }).freeze
        end.freeze
      end

      # Committed offsets; nil where there is none.
      def commits(rows)
        offsets(rows).zip(rows).to_h do |(partition, offset), row|
          [partition, offset && Commit.new(offset: offset, metadata: row[3]).freeze]
        end
      end

      # Kafka says "Unknown member" or "The group is not empty".
      def live_members(id, error, members)
        where = members.first(3).map { |member| "#{member.client_id} on #{member.host.delete_prefix("/")}" }
        where << "…" if members.size > 3
        reason = "group #{id} has live members; stop them first"
        reason += " (#{members.size}: #{where.join(", ")})" unless members.empty?
        KafkaError.new(error.code, error.name, reason)
      end

      # [[topic, partition, offset, …, error], …] → {[topic, partition] => offset}; nil if there is none.
      def offsets(rows)
        rows.to_h do |topic, partition, offset, *, error|
          raise error.about("#{topic}/#{partition}") if error

          [[topic, partition], (offset unless offset.negative?)]
        end
      end

      # librdkafka says "No leaders found" if it knows none of the topics.
      def nowhere(rows, error)
        names = rows.first(3).map { |topic, partition,| "#{topic}/#{partition}" }
        names << "…" if rows.size > 3
        KafkaError.new(error.code, error.name, "no such topic or partition: #{names.join(", ")}")
      end

      def acls(rows)
        rows.map do |*columns, error|
          raise error if error

          rule = Acl.new(Acl.members.zip(columns).to_h)
          %i[resource pattern operation permission].each { |name| rule[name] = word(rule[name]) }
          rule.resource = :cluster if rule.resource == :broker
          rule.freeze
        end
      end

      # "PreparingRebalance", "DEFAULT_CONFIG" → :preparing_rebalance, :default_config
      def word(text) = text.gsub(/([a-z])([A-Z])/, '\1_\2').downcase.to_sym
    end
    private_constant :Responses
  end
end
