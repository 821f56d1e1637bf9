# frozen_string_literal: true

require_relative "logging/printable"
require_relative "runtime/secrets"

# Every error of Pelton: the general ones here, the others by subject in errors/. Each builds its message from its
# arguments, and has a reader for each of them. The native extension calls these constructors, so do not change a
# signature without changing ext/pelton/src/error.rs.
#
# docs/reference/errors.md is generated from the comments above the classes. The first lines say when the error is
# raised. The lines from "What to do:" on say what to do.
module Pelton
  # The parent of all errors that Pelton raises.
  # What to do: Rescue it to rescue every error of Pelton.
  class Error < StandardError; end

  # A setting, an option of librdkafka or a setting in the routes is unknown, or has a value that is not allowed.
  # What to do: The message names the setting, the value and what is allowed; correct it.
  #   ConfigError.new("acks", "many", "allowed: -1 … 1000, all")
  class ConfigError < Error
    #: (key: String)
    attr_reader :key, :value

    #: (String | Symbol, ?untyped, ?String?) -> void
    def initialize(key, value = nil, reason = nil)
      @key = key.to_s
      @value = Secrets.safe(key, value)
      shown = value.nil? ? @key : "#{@key} = #{Secrets.show(key, value)}"
      super(reason ? "#{shown}: #{reason}" : "#{shown} is not allowed")
    end

    # More known names than this are not listed, only the number of them and the most similar ones.
    MANY = 50
    FEW = 3
    private_constant :MANY, :FEW

    # For Pelton: the error for an unknown name, with the most similar known name if one is near.
    #: (String | Symbol, Array[String | Symbol], ?what: String) -> ConfigError
    def self.unknown(key, known, what: "setting")
      near = near(key, known)
      new(key, nil, "unknown #{what}, #{near ? "did you mean #{near}?" : listed(key.to_s, known.map(&:to_s))}")
    end

    # For Pelton: the known name that is most similar, or nil. At most two fifths of the letters differ, or only their
    # order. A name that only begins alike would mislead: max_batch_bytes is not what max_wait_time means.
    #: (String | Symbol, Array[String | Symbol]) -> String?
    def self.near(name, known)
      return unless defined?(::DidYouMean::SpellChecker)

      found = ::DidYouMean::SpellChecker.new(dictionary: known.map(&:to_s)).correct(name.to_s).first or return
      same_letters = name.to_s.chars.sort == found.chars.sort
      found if same_letters || distance(name.to_s, found) * 5 <= [name.size, found.size].max * 2
    end

    def self.listed(name, known)
      return "known are #{known.sort.join(", ")}" if known.size <= MANY

      text = name.upcase
      alike = known.select do |candidate|
        candidate.upcase.include?(text) || distance(text, candidate.upcase) * 2 <= text.size
      end
      first = alike.min_by(FEW) do |candidate|
        [candidate.upcase.include?(text) ? 0 : 1, distance(text, candidate.upcase), candidate]
      end
      first.empty? ? "none of the #{known.size} known ones is like it" : "did you mean #{first.join(" or ")}?"
    end

    def self.distance(*names) = defined?(::DidYouMean) ? ::DidYouMean::Levenshtein.distance(*names) : 0
    private_class_method :listed, :distance
  end

  # A client was used after `close`.
  # What to do: Open a new client, or close it later.
  #   ClosedError.new("producer pelton.producer#1")
  class ClosedError < Error
    #: (?String) -> void
    def initialize(what = "client") = super("#{what} is closed: use it before its close, or open another one")
  end

  # A client, or a delivery or message that came from it, was used in a forked child of the process that opened it.
  # What to do: Open clients after the fork.
  #   ForkError.new("producer pelton.producer#1", 4711)
  class ForkError < Error
    attr_reader :owner_pid

    #: (?String, ?Integer?) -> void
    def initialize(what = "client", owner_pid = nil)
      @owner_pid = owner_pid
      super("#{what} was opened in process #{owner_pid || "(parent)"} and cannot be used in its forked child " \
            "#{Process.pid}: open one after the fork")
    end
  end

  # A wait ended at its timeout. What it waited for may still happen.
  # What to do: Wait again, or treat the outcome as unknown. `cause` is the last error of Kafka, if there was one. If
  # `transaction` raises it, nothing is committed: in a consumer, let it pass; elsewhere, run the transaction again.
  #   WaitTimeout.new("delivery", "orders", 5.0)
  class WaitTimeout < Error
    attr_reader :operation, :topic, :seconds

    #: (String, ?String?, ?Numeric?, ?KafkaError?) -> void
    def initialize(operation, topic = nil, seconds = nil, reason = nil)
      @operation = operation
      @topic = topic
      @seconds = seconds
      super("#{operation}#{" to #{topic}" if topic} not finished#{" after #{seconds} s" if seconds}" \
            "#{"; the message may still be delivered" if operation.to_s.include?("deliver")}" \
            "#{"; last error: #{reason.message}" if reason}")
    end
  end
end

require_relative "errors/kafka"
require_relative "errors/producing"
require_relative "errors/transactions"
require_relative "errors/consuming"
require_relative "errors/server"
require_relative "errors/decoding"
require_relative "errors/schemas"
require_relative "errors/outbox"
require_relative "errors/parallel"
require_relative "errors/jobs"
