# frozen_string_literal: true

# Errors of parallel work and of routes. errors.rb loads this file.
module Pelton
  # An error in a worker Ractor. The exception itself stays there; this one has its class name, message and backtrace.
  # What to do: Look at `error_class` and the backtrace, as for the original error.
  #   WorkError.new("JSON::ParserError", "unexpected end of input", ["app.rb:12:in 'call'"])
  class WorkError < Error
    attr_reader :error_class

    # Class name, message and backtrace of an exception, whatever its own methods do. In UTF-8, because other encodings
    # may not be joined.
    #: (Exception) -> [String, String, Array[String]]
    def self.facts(error)
      name = Module.instance_method(:to_s).bind_call(error.class)
      [name, text(error.message), error.backtrace.to_a.map { |line| text(line) }]
    rescue Exception => e # rubocop:disable Lint/RescueException
      [name.to_s, "its message cannot be read (#{e.class})", []]
    end

    private_class_method def self.text(given)
      text = String.new(given).then { |one| one.encoding == Encoding::BINARY ? one.force_encoding("UTF-8") : one }
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    end

    #: (String, ?String, ?Array[String]) -> void
    def initialize(error_class, message = "", backtrace = [])
      @error_class = error_class
      super("#{error_class}: #{message}")
      set_backtrace(backtrace)
    end
  end

  # A regular expression of `where` that needs Ruby's Regexp took longer than a second for one text. The message goes
  # to `consume`.
  # What to do: Simplify the pattern, or use a `filter`. Check for such messages in `consume`.
  #   PatternTimeout.new(/(?=(a+)+$)b/, 31).of(message)
  class PatternTimeout < Error
    #: (?Regexp?, ?Integer, ?untyped) -> void
    def initialize(pattern = nil, bytes = 0, message = nil)
      @pattern = pattern
      @bytes = bytes
      place = "#{message.topic}/#{message.partition} at offset #{message.offset}, " if message
      super("where = #{pattern.inspect}: #{place}matching a text of #{bytes} bytes took more than a second, so " \
            "consume gets the message: simplify the pattern, or use a `filter`")
    end

    # The same error with the message's place.
    #: (Message) -> PatternTimeout
    def of(message) = self.class.new(@pattern, @bytes, message)
  end

  # A `Pelton::Parallel::Future` was cancelled before its work was finished.
  # What to do: Nothing, if you cancelled it; otherwise do the work again.
  class CancelledError < Error
    #: (?String) -> void
    def initialize(message = "cancelled before it was finished") = super
  end

  # Messages wait in a retry topic, but no consumer of this app will get them.
  # What to do: Add the `drain` or `former_groups` that the message names to `retry_in`.
  #   StrandedMessages.new("orders.retry.30", 3, "billing", main: "orders", routed: false, group: "billing")
  class StrandedMessages < Error
    # topic: the retry topic; count: messages that wait; owner: the group in which they failed.
    attr_reader :topic, :count, :owner

    # routed: true if the group `group` reads the topic.
    #: (String, Integer, String, main: String, routed: bool, group: String) -> void
    def initialize(topic, count, owner, main:, routed:, group:)
      @topic = topic
      @count = count
      @owner = owner
      drain = "drain: [#{topic[/[^a-z]*\z/].delete_prefix(".")}]"
      former = "former_groups: [#{owner.inspect}]"
      reason, word = routed ? ["has no member", former] : ["has no such delay in its retry_in of #{main}", drain]
      word = "#{drain}, #{former}" if !routed && owner != group
      super("#{topic}: #{count} messages of the group #{owner} wait there, but this group #{reason}: to let #{group} " \
            "process them, add #{word} to the retry_in of #{main}")
    end
  end
end
