# frozen_string_literal: true

# Errors that Kafka or librdkafka reports. errors.rb loads this file.
module Pelton
  # Kafka or librdkafka reported an error. `code` and `name` are librdkafka's.
  # What to do: Ask `retriable?` (the same call may succeed later), `abortable?` (abort the transaction), `fatal?`
  # (open a new client), `permanent?` (a new client would fail, too) and `message_refused?` (Kafka never accepts this
  # message).
  #   KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out", false, true)
  class KafkaError < Error
    # Kafka's illegal generation, unknown member, rebalance, fenced instance, fenced or stale member epoch; librdkafka's
    # assignment lost.
    ASSIGNMENT_LOST = [22, 25, 27, 82, 110, 113, -142].freeze
    # librdkafka's no offset stored.
    NOTHING_TO_COMMIT = -168
    # librdkafka's fenced; Kafka's invalid producer epoch, producer fenced.
    FENCED = [-144, 47, 90].freeze
    # Kafka's fenced instance.
    MEMBER_FENCED = 82
    # Kafka's cluster or transactional id not authorized, invalid transaction timeout, version not supported;
    # librdkafka's feature not supported.
    PERMANENT = [31, 50, 53, -165, 35].freeze
    # librdkafka's purged from the queue, purged in flight.
    PURGED = [-152, -151].freeze
    # A broker or the producer will refuse this message each time.
    REFUSALS = %i[MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT].freeze
    private_constant :ASSIGNMENT_LOST, :NOTHING_TO_COMMIT, :FENCED, :MEMBER_FENCED, :PERMANENT, :PURGED, :REFUSALS

    #: (reason: String)
    attr_reader :code, :name, :reason

    #: (Integer, Symbol, ?String?, ?bool, ?bool, ?bool) -> void
    def initialize(code, name, reason = nil, fatal = false, retriable = false, abortable = false)
      @abortable = abortable ? true : false
      @code = code
      @name = name.to_sym
      @reason = Printable.line(reason)
      @fatal = fatal ? true : false
      @retriable = retriable ? true : false
      super("#{@reason.empty? ? "Kafka error" : @reason} (#{@name}, #{@code})#{", fatal" if @fatal}#{details}")
    end

    # true: this client cannot be used any more; close it and open another one.
    #   error.fatal? # => true
    #: () -> bool
    def fatal? = @fatal

    # true: the same call may succeed when you repeat it.
    #   error.retriable? # => true
    #: () -> bool
    def retriable? = @retriable

    # true: the transaction failed and must be aborted; the next one may succeed.
    #   error.abortable? # => true
    #: () -> bool
    def abortable? = @abortable

    # true: another producer with the same transactional.id took over.
    #   error.fenced? # => true
    #: () -> bool
    def fenced? = FENCED.include?(@code)

    # true: another client took over: a producer with the same transactional.id, or a group member with the
    # same group.instance.id.
    #   error.taken_over? # => true
    #: () -> bool
    def taken_over? = fenced? || @code == MEMBER_FENCED

    # true: a new client would fail in the same way.
    #   error.permanent? # => true
    #: () -> bool
    def permanent? = PERMANENT.include?(@code)

    # true: the message was dropped with its transaction, or by a close.
    #   error.purged? # => true
    #: () -> bool
    def purged? = PURGED.include?(@code)

    # true: Kafka never accepts this message, however often it is sent.
    #   error.message_refused? # => true
    #: () -> bool
    def message_refused? = REFUSALS.include?(@name)

    # For Pelton: the same error with the name of the topic or group that it is about, which Kafka's answer lacks.
    #: (String) -> KafkaError
    def about(name)
      KafkaError.new(@code, @name, [name, @reason].reject(&:empty?).join(": "), @fatal, @retriable, @abortable)
    end

    # true: a commit was refused because another member has the partition.
    #   error.assignment_lost? # => true
    #: () -> bool
    def assignment_lost? = ASSIGNMENT_LOST.include?(@code)

    # true: a commit had nothing new to store.
    #   error.nothing_to_commit? # => true
    #: () -> bool
    def nothing_to_commit? = @code == NOTHING_TO_COMMIT

    private

    def details
      return unless fenced?

      "; another producer has this transactional.id, or the transaction outlived transaction.timeout.ms"
    end
  end
end
