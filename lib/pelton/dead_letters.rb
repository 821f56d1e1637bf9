# frozen_string_literal: true

module Pelton
  class DeadLetters
    # Named before its parts are loaded: otherwise its autoload would load this file again.
  end
end

require_relative "errors"
require_relative "iterator"
require_relative "runtime/notifications"
require_relative "settings/settings"
require_relative "dead_letters/filter"
require_relative "dead_letters/letter"
require_relative "dead_letters/redrive"
require_relative "dead_letters/run"
require_relative "dead_letters/session"
require_relative "dead_letters/status_log"
require_relative "dead_letters/topics"

module Pelton
  # The letters of one dead-letter topic: lists them, sends them back to be processed again, and deletes them.
  #   letters = Pelton.dead_letters("orders.dead")
  #   letters.list(error: "ArgumentError", limit: 10).each { |letter| puts letter.origin.error_message }
  #   letters.redrive(error: "ArgumentError").handled # => 12
  # Each letter has a status: it is open until it is redriven or deleted. The status is in the compacted topic
  # "orders.dead.status", which the first redrive or deletion creates.
  #
  # The methods take these filters. With several, a letter must meet all of them. Each of the first five is a String or
  # an Array of Strings.
  #   id            failure ids, or places such as "0/42" (partition and offset in the dead-letter topic); not nil
  #   topic         the topic where the message was first
  #   group         the group in which it failed
  #   error         the class of the last error
  #   key           the message's key, as bytes or as its key_deserializer makes it: as text or JSON
  #   since, until  Times: it failed at `since` or later, and before `until`
  #   status        :open (the default), :redriven, :deleted or :all
  #
  # Each call opens clients of its own and closes them at the end. It waits for Kafka in the calling thread, and ends at
  # once on Interrupt and Thread#kill. Callable from every thread. Raises ConfigError for wrong arguments and for a
  # topic that does not exist, and KafkaError.
  class DeadLetters
    # Only what is committed counts.
    COMMITTED = { "isolation.level" => "read_committed" }.freeze
    GROUPS = %i[error group topic status].freeze
    # If the limit of `list` is larger, all letters are kept, and sorted at the end.
    FEW = 100_000
    LIMIT, RATE = { limit: :count, rate: :positive_seconds }.map do |name, type|
      Settings::Setting.new(name, type, nil, "")
    end
    STOP = "expected a Pelton::Background::Stop"
    private_constant :COMMITTED, :GROUPS, :STOP, :FEW, :LIMIT, :RATE

    # The name of the dead-letter topic.
    #   Pelton.dead_letters("orders.dead").topic # => "orders.dead"
    #: () -> String
    attr_reader :topic

    # Pelton.dead_letters and App#dead_letters make one for you. decode, deserializer, key_deserializer: as in routes.
    # kafka: options of librdkafka for all its clients.
    #: (Config, String, ?decode: untyped, ?deserializer: untyped, ?key_deserializer: untyped,
    #:  ?kafka: Hash[String, untyped], ?bus: Notifications, ?native: Module?) -> void
    def initialize(config, topic, decode: nil, deserializer: nil, key_deserializer: nil, kafka: {},
                   bus: Notifications.new, native: nil)
      @config = config
      @topic = Settings::Setting.new(:topic, :name, "a", "").check(topic)
      @formats = { decode: decode, deserializer: deserializer, key_deserializer: key_deserializer }
      @clients = { bus: bus, native: native, kafka: { **kafka, **COMMITTED } }
    end

    # Yields each letter that meets the filters, in the order of offsets within a partition. Returns self; without a
    # block, an Enumerator. from: where to begin in each partition, as for Pelton.each; -100 for its last 100 letters.
    #   letters.each(group: "billing") { |letter| puts letter.place }
    #: (?from: untyped, **untyped) ?{ (Letter) -> void } -> (self | Enumerator[Letter, self])
    def each(from: :beginning, **filters, &block)
      filter = Filter.new(filters)
      return enum_for(:each, from: from, **filters) unless block

      log = status_log
      scan(filter, -> { log }, from) { |letter| yield letter if filter.match?(letter) }
      self
    end

    # For Pelton: yields the letters in these ranges of offsets that meet the filters. It reads one Hash after another,
    # so the newest can come first: [{ 0 => 900...1000 }, { 0 => 0...900 }]. done: called after each Hash.
    #: (Array[Hash[Integer, Range[Integer]]], done: ^() -> void, **untyped) { (Letter) -> void } -> void
    def within(windows, done:, **filters)
      filter = Filter.new(filters)
      log = status_log
      windows.each do |ranges|
        letters(ranges, -> { log }) { |letter| yield letter if filter.match?(letter) }
        done.call
      end
    end

    # The letters that meet the filters, those that failed last first. limit: most letters; nil: all of them.
    #   letters.list(since: Time.now - 3600, limit: 10) # => [#<Pelton::DeadLetters::Letter orders.dead 0/42 open …>]
    #: (?limit: Integer?, **untyped) -> Array[Letter]
    def list(limit: 100, **filters)
      order = ->(letter) { [letter.time.to_f, letter.offset] }
      found = each(**filters)
      LIMIT.check(limit)
      return found.max_by(limit, &order) if limit && limit <= FEW # it reserves memory for `limit` letters

      all = found.sort_by(&order).reverse
      limit && limit < all.size ? all.first(limit) : all
    end

    # The letter with this failure id or place, whatever its status; nil: there is none.
    #   letters.find("9f86d081884c7d65") or letters.find("0/42")
    #: (String) -> Letter?
    def find(id) = each(id: id, status: :all).first

    # Counts letters by :error (class of the last error), :group, :topic (where they were first) or :status. Letters
    # without an origin have nil.
    #   letters.count_by(:error) # => { "ArgumentError" => 12, "IOError" => 1 }
    #: (Symbol, **untyped) -> Hash[untyped, Integer]
    def count_by(what, **filters)
      raise ConfigError.new(:count_by, what, "expected one of #{GROUPS.map(&:inspect).join(", ")}") unless
        GROUPS.include?(what)

      counts = each(**filters).map { |letter| what == :topic ? letter.origin&.topic : letter.public_send(what) }.tally
      counts.sort_by { |_, count| -count }.to_h
    end

    # Sends letters back to be processed again, each one once: the copy and its status are one transaction. So a second
    # run sends nothing twice, also after a kill. Letters go to their first topic and partition, in order, with their
    # own headers and a new timestamp; their attempts count from 1 again.
    #   letters.redrive(error: "ArgumentError", rate: 100).handled # => 12
    # to: another topic instead; letters without an origin need it. retry_topic: delay in seconds, 10 for
    # "orders.retry.10": only the group in which the message failed gets it, at once. rate: letters per second. limit:
    # most letters. dry_run: true counts and sends nothing. stop: a Background::Stop; when asked, the run ends between
    # two letters. payload: gets each letter and returns the bytes to send instead of its own, maybe more than once for
    # a letter; nil is a tombstone. An error from it ends the run, and the letter stays open.
    #   letters.redrive(id: "0/42", payload: ->(letter) { JSON.generate(letter.payload.merge("total" => 5)) })
    #
    # The block gets each letter after its transaction, with nil; or, for a letter that cannot be sent and stays open,
    # with the reason. Raises DeadLettersFenced if another redrive or deletion of this topic begins: it then goes on,
    # and this one ends.
    #: (?to: String?, ?retry_topic: Numeric?, ?payload: (^(Letter) -> String?)?, ?rate: Numeric?, ?limit: Integer?,
    #:  ?dry_run: bool, ?stop: Background::Stop?, **untyped) ?{ (Letter, String?) -> void } -> Result
    def redrive(to: nil, retry_topic: nil, payload: nil, rate: nil, limit: nil, dry_run: false, stop: nil, **filters,
                &block)
      topics = Topics.new(@config, **@clients)
      work = Redrive.new(to: to, retry_topic: retry_topic, payload: payload) { |name| topics.partitions(name) }
      run(work, filters, topics, dry_run, { rate: rate, limit: limit, stop: stop }, &block)
    end

    # Deletes letters: they are neither listed nor redriven any more. Their bytes stay in the topic until its retention
    # is over. Otherwise as `redrive`.
    #   letters.delete(id: "9f86d081884c7d65").handled # => 1
    #: (?rate: Numeric?, ?limit: Integer?, ?dry_run: bool, ?stop: Background::Stop?, **untyped)
    #:   ?{ (Letter, String?) -> void } -> Result
    def delete(rate: nil, limit: nil, dry_run: false, stop: nil, **filters, &block)
      topics = Topics.new(@config, **@clients)
      run(Deletion.new, filters, topics, dry_run, { rate: rate, limit: limit, stop: stop }, &block)
    end

    def inspect = "#<#{self.class} #{@topic}>"

    private

    def run(work, filters, topics, dry_run, limits, &block)
      filter = Filter.new(filters)
      check(**limits)
      raise ConfigError.new("topic", @topic, "does not exist") unless topics.partitions(@topic)

      session = Session.new(@topic, @config, topics, **@clients) { status_log } unless dry_run
      session&.start
      log = session ? -> { session.log } : status_log.then { |now| -> { now } }
      letters = Enumerator.new { |found| scan(filter, log) { |letter| found << letter } }
      Run.new(work, session, filter: filter, **limits, &block).call(letters).tap { session&.await_readers }
    ensure
      session&.close
      topics.close
    end

    def check(rate:, limit:, stop:)
      RATE.check(rate)
      LIMIT.check(limit)
      raise ConfigError.new("stop", stop, STOP) unless stop.nil? || stop.respond_to?(:stop?)
    end

    # Yields all letters, or if the filter names places, those between them. log: returns the StatusLog of this moment.
    def scan(filter, log, from = :beginning, &block)
      letters(filter.places, log, from, &block)
    end

    # places: {partition => range of offsets}; nil: all from `from` on.
    def letters(places, log, from = :beginning)
      options = { stop_at: ->(message) { past?(places[message.partition], message.offset) } } if places
      topics = places ? { @topic => places.transform_values(&:begin) } : @topic
      read(topics, from: from, **@formats, **(options || {})).each do |message|
        yield Letter.new(message) { |letter| log.call.of(letter) }
      end
    end

    def past?(range, offset) = range.exclude_end? ? offset >= range.end : offset > range.end

    def status_log
      name = StatusLog.topic(@topic)
      StatusLog.new(read(name))
    rescue ConfigError => e
      raise unless e.key == "topic" && e.value == name # it does not exist: all letters are open

      StatusLog.new([])
    end

    def read(topics, **options) = Iterator.new(@config, [topics], **options, **@clients)
  end
end
