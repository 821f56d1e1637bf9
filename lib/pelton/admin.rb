# frozen_string_literal: true

require_relative "admin/answers"
require_relative "admin/questions"
require_relative "clock"
require_relative "config"
require_relative "errors"
require_relative "event_dispatch"
require_relative "notifications"
require_relative "oauth"
require_relative "poller"
require_relative "threads"

module Pelton
  # Asks Kafka for changes of topics, groups, offsets, settings and access rules, and what they are.
  #   Pelton.admin.create_topic("orders", partitions: 4, config: { "retention.ms" => 86_400_000 })
  #   Pelton.admin.lag("billing") # => { ["orders", 0] => 17, … }
  # Each call waits for Kafka's answer: without the GVL, interruptibly, parking a fiber under a scheduler; for `timeout`
  # seconds at most, which each call takes. Has no thread of its own: answers come to the poller's. From any thread. The
  # native client opens with the first call; a forked child opens its own. Raises KafkaError with Kafka's word for what
  # was refused, or _TIMED_OUT with what is known of why nobody answers (then it may be done nevertheless); ConfigError
  # for arguments that cannot be; ClosedError.
  class Admin
    TIMEOUT = 30
    # Errors of a client that knows an earlier leader, coordinator or controller, as after a restart of a broker:
    # nothing was done, and librdkafka would go on with what it knows for minutes.
    OUTDATED = %i[FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH NOT_LEADER_FOR_PARTITION NOT_COORDINATOR
                  COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_CONTROLLER].freeze
    # Seconds between two attempts.
    PAUSE = 0.2
    private_constant :TIMEOUT, :OUTDATED, :PAUSE

    # Its name in events: "pelton.admin#1"
    #: () -> String
    attr_reader :name

    #: (Config, ?bus: Notifications, ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, bus: Notifications.new, native: nil, kafka: {})
      @config = config
      @bus = bus
      @module = native
      @kafka = kafka.dup.freeze
      @name = EventDispatch.client_name("#{config.client_id}.admin")
      # The native client, the process that opened it, and who drains it. Set under @lock.
      @native = nil
      @owner = nil
      @poller = nil
      @closed = false
      @lock = Mutex.new
    end

    # partitions, replicas: nil is the broker's default. config: the topic's own settings.
    #: (String, ?partitions: Integer?, ?replicas: Integer?, ?config: Hash[String, untyped], ?timeout: Numeric?) -> void
    def create_topic(name, partitions: 1, replicas: nil, config: {}, timeout: TIMEOUT)
      change(:create_topic, Questions.new_topic(name, partitions, replicas, config), timeout)
    end

    #: (String, ?timeout: Numeric?) -> void
    def delete_topic(name, timeout: TIMEOUT) = change(:delete_topic, Questions::TOPIC.check(name), timeout)

    # count: how many it is to have in all. Keys move to other partitions by that.
    #: (String, Integer, ?timeout: Numeric?) -> void
    def create_partitions(topic, count, timeout: TIMEOUT)
      change(:create_partitions, [Questions::TOPIC.check(topic), Questions.count(count)], timeout)
    end

    # These topics, or all of them: {"orders" => #<struct Pelton::Admin::TopicDescription …>}.
    #: (*String, ?timeout: Numeric?) -> Hash[String, TopicDescription]
    def topics(*names, timeout: TIMEOUT)
      names.each { |name| Questions::TOPIC.check(name) }
      deadline = Clock.deadline(timeout)
      names = native.topics(timeout) if names.empty?
      names.empty? ? {} : ask(:topics, names, Clock.left(deadline)) { |rows| Answers.topics(rows) }
    end

    #: (?timeout: Numeric?) -> ClusterDescription
    def cluster(timeout: TIMEOUT) = ask(:cluster, nil, timeout) { |rows| Answers.cluster(rows) }

    # The settings of a topic or of a broker: {"retention.ms" => #<struct Pelton::Admin::Option …>}.
    #: (?topic: String?, ?broker: Integer?, ?timeout: Numeric?) -> Hash[String, Option]
    def config(topic: nil, broker: nil, timeout: TIMEOUT)
      ask(:config, Questions.resource(topic, broker), timeout) { |rows| Answers.options(rows) }
    end

    # Changes these settings and no others; nil takes one back.
    #   admin.alter_config({ "retention.ms" => 1000, "cleanup.policy" => nil }, topic: "orders")
    #: (Hash[String, untyped], ?topic: String?, ?broker: Integer?, ?timeout: Numeric?) -> void
    def alter_config(changes, topic: nil, broker: nil, timeout: TIMEOUT)
      whose = Questions.resource(topic, broker)
      change(:alter_config, [whose, Questions.options(changes, deletes: true)], timeout)
    end

    # All groups and their states: {"billing" => :stable, "old" => :empty}.
    #: (?timeout: Numeric?) -> Hash[String, Symbol]
    def groups(timeout: TIMEOUT) = ask(:groups, nil, timeout) { |rows| Answers.groups(rows) }

    # One that is not there is :dead.
    #: (String, ?timeout: Numeric?) -> GroupDescription
    def group(id, timeout: TIMEOUT)
      ask(:describe_groups, [Questions::GROUP.check(id)], timeout) { |rows| Answers.group(rows) }
    end

    # Only where nobody is a member.
    #: (String, ?timeout: Numeric?) -> void
    def delete_group(id, timeout: TIMEOUT) = change(:delete_group, Questions::GROUP.check(id), timeout)

    # What the group committed: {["orders", 0] => 42}.
    #: (String, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def group_offsets(id, timeout: TIMEOUT)
      ask(:group_offsets, Questions::GROUP.check(id), timeout) { |rows| Answers.offsets(Answers.only(rows)[2]) }
    end

    # Where the group goes on: {["orders", 0] => 42}. Only where nobody is a member.
    #: (String, Hash[[String, Integer], Integer], ?timeout: Numeric?) -> void
    def alter_group_offsets(id, offsets, timeout: TIMEOUT)
      places = Questions.places(offsets, "an Integer >= 0") { |offset| Questions.offset(offset) }
      change_offsets(:alter_group_offsets, id, places, timeout)
    end

    # Has the group forget these partitions, [["orders", 0], …]; only of topics that no member subscribes to.
    #: (String, Array[[String, Integer]], ?timeout: Numeric?) -> void
    def delete_group_offsets(id, partitions, timeout: TIMEOUT)
      raise ConfigError.new(:partitions, partitions, "expected [[topic, partition], …]") unless partitions.is_a?(Array)

      change_offsets(:delete_group_offsets, id, partitions.map { |place| [*Questions.partition(place), 0] }, timeout)
    end

    # The offset of each place: :beginning, :end, :newest (the largest timestamp), or a Time (the first message that is
    # not older; nil: all are older).
    #   admin.offsets({ ["orders", 0] => :end, ["orders", 1] => Time.now - 3600 }) # => { ["orders", 0] => 42, … }
    # committed: the end is before the first transaction that is still open, as for consumers with read_committed.
    #: (Hash[[String, Integer], Symbol | Time], ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def offsets(places, committed: true, timeout: TIMEOUT)
      rows = Questions.places(places, ":beginning, :end, :newest or a Time") { |place| Questions.time(place) }
      rows.empty? ? {} : ask(:offsets, [rows, !!committed], timeout) { |found| Answers.offsets(found) }
    end

    # How many offsets are left to the group in each partition of which it committed something. Two questions, one after
    # the other: what is produced meanwhile counts.
    #: (String, ?committed: bool, ?timeout: Numeric?) -> Hash[[String, Integer], Integer]
    def lag(id, committed: true, timeout: TIMEOUT)
      deadline = Clock.deadline(timeout)
      done = group_offsets(id, timeout: timeout).compact
      ends = offsets(done.transform_values { :end }, committed: committed, timeout: Clock.left(deadline))
      ends.to_h { |place, offset| [place, [offset.to_i - done.fetch(place), 0].max] }
    end

    # Deletes what is before these offsets: {["orders", 0] => 42}; :end deletes all. Returns the oldest offsets left.
    #: (Hash[[String, Integer], Integer | Symbol], ?timeout: Numeric?) -> Hash[[String, Integer], Integer?]
    def delete_records(before, timeout: TIMEOUT)
      all = { end: -1 }
      rows = Questions.places(before, "an Integer >= 0 or :end") { |to| all[to] || Questions.offset(to) }
      rows.empty? ? {} : ask(:delete_records, rows, timeout) { |found| Answers.offsets(found) }
    end

    # Adds an access rule. resource: topic:, group: or transactional_id: with a name (with pattern: :prefixed its
    # beginning), or cluster: true.
    #   admin.create_acl(principal: "User:alice", operation: :read, topic: "orders")
    #: (principal: String, operation: Symbol, ?permission: Symbol, ?host: String, ?pattern: Symbol, ?timeout: Numeric?,
    #:  **untyped) -> void
    def create_acl(principal:, operation:, permission: :allow, host: "*", pattern: :literal, timeout: TIMEOUT,
                   **resource)
      rule = Questions.acl(principal, operation, permission, host, pattern, resource)
      ask(:create_acl, rule, timeout) { |errors| Answers.only(errors.map { |error| [nil, error] }) }
      nil
    end

    # The rules that match; what is not given is any.
    #: (?principal: String?, ?operation: Symbol?, ?permission: Symbol?, ?host: String?, ?pattern: Symbol?,
    #:  ?timeout: Numeric?, **untyped) -> Array[Acl]
    def acls(principal: nil, operation: nil, permission: nil, host: nil, pattern: nil, timeout: TIMEOUT, **resource)
      filter = Questions.acl_filter(principal, operation, permission, host, pattern, resource)
      ask(:acls, filter, timeout) { |rows| Answers.acls(rows) }
    end

    # Deletes the rules that match and returns them; without an argument: all of them.
    #: (?principal: String?, ?operation: Symbol?, ?permission: Symbol?, ?host: String?, ?pattern: Symbol?,
    #:  ?timeout: Numeric?, **untyped) -> Array[Acl]
    def delete_acls(principal: nil, operation: nil, permission: nil, host: nil, pattern: nil, timeout: TIMEOUT,
                    **resource)
      filter = Questions.acl_filter(principal, operation, permission, host, pattern, resource)
      ask(:delete_acls, filter, timeout) { |rows| Answers.acls(Answers.only(rows, error: 0)[1]) }
    end

    # Whoever waits for an answer gets KafkaError (_DESTROY). As often as you like, from any thread or trap. false: not
    # finished within `timeout` seconds.
    #: (?timeout: Numeric?) -> bool
    def close(timeout: TIMEOUT)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || false
    end

    #: () -> bool
    def closed? = @closed

    def inspect = "#<#{self.class} #{@name}#{" closed" if @closed}>"

    private

    def change(kind, argument, timeout)
      ask(kind, argument, timeout) { |rows| Answers.only(rows) }
      nil
    end

    def change_offsets(kind, id, places, timeout)
      return Questions::GROUP.check(id) && nil if places.empty?

      ask(kind, [Questions::GROUP.check(id), places], timeout) { |rows| Answers.offsets(Answers.only(rows)[2]) }
      nil
    end

    # What the block makes of the rows of the answer. Asks again, of a new client, where this one knew too little.
    def ask(kind, argument, timeout)
      deadline = Clock.deadline(timeout)
      left = timeout
      begin
        yield native.request(kind, argument, left)
      rescue KafkaError => e
        left &&= Clock.left(deadline) - PAUSE if deadline
        raise unless OUTDATED.include?(e.name) && (left.nil? || left.positive?)

        native.renew
        pause
        retry
      end
    end

    def pause
      deadline = Clock.deadline(PAUSE)
      lock = Mutex.new
      lock.synchronize { ConditionVariable.new.wait(lock, Clock.left(deadline)) until Clock.left(deadline).zero? }
    end

    def native
      return @native if @native && @owner == Process.pid && !@closed

      @lock.synchronize do
        raise ClosedError, "admin #{@name}" if @closed

        @native = open unless @owner == Process.pid
        @native
      end
    end

    def open
      @config.freeze
      source = @module || Native
      @poller = @config.polling.poller || Poller.shared(source)
      polling = @poller.polling(@config.polling.max_time)
      options = @config.kafka_with({}, @kafka, bus: @bus)
      native = Oauth.of(source).open(@name, @config.oauth, @bus) { source::Admin.new(@name, options, polling) }
      @poller.add(@name, @bus)
      @owner = Process.pid
      native
    end

    def shut(timeout)
      native = @lock.synchronize do
        @closed = true
        @native if @owner == Process.pid
      end
      return true unless native

      native.close(timeout)
    ensure
      [Oauth.of(@module || Native), @poller].each { |clients| clients.remove(@name) } if native
    end
  end
end
