# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Registry
    # What a registry answered, good or bad, for a time; and one request at a time for each thing.
    class Cache
      # answer: nil until there was one. lock: of who asks: Ruby gives it back however that ends (an interrupt at any
      # line, the thread's death, a fork), so nobody waits for an answer that nobody is after.
      Entry = Struct.new(:lock, :answer)
      # value or error; till: a point of time, nil for ever.
      Answer = Struct.new(:value, :error, :till)
      # Errors kept at most: broken messages may name any id.
      ERRORS = 1000
      private_constant :Entry, :Answer, :ERRORS

      #: () -> void
      def initialize
        @lock = Mutex.new
        # {key => Entry}; under @lock.
        @entries = {}
      end

      # What is known of the key, or what the block returns: that is kept for `ttl` seconds (nil: for ever), a
      # RegistryError of it for what `error_ttl` says. Where nobody answers, what was known counts as long again. Waits
      # while another thread asks for the same.
      #: (untyped, Numeric?, ^(RegistryError) -> Numeric) { () -> untyped } -> untyped
      def fetch(key, ttl, error_ttl, &look_up)
        entry = @lock.synchronize { @entries[key] ||= Entry.new(Mutex.new) }
        known = fresh(entry) || entry.lock.synchronize { fresh(entry) || ask(entry, ttl, error_ttl, look_up) }
        # A new error each time: an exception is one thread's.
        known.error ? raise(known.error.dup) : known.value
      end

      private

      def ask(entry, ttl, error_ttl, look_up)
        entry.answer = Answer.new(look_up.call, nil, Clock.deadline(ttl))
      rescue RegistryError => e
        seconds = error_ttl.call(e)
        if outlasts?(entry, e)
          entry.answer = Answer.new(entry.answer.value, nil, Clock.deadline([seconds, *ttl].max))
        else
          forget_errors
          entry.answer = Answer.new(nil, e, Clock.deadline(seconds))
        end
      end

      # Is what was known still all that anybody knows?
      def outlasts?(entry, error)
        known = entry.answer
        known && known.error.nil? && (error.status.nil? || error.status >= 500)
      end

      # The oldest ones; their places in the Hash are those of their first question.
      def forget_errors
        @lock.synchronize do
          errors = @entries.select { |_, entry| entry.answer&.error }
          errors.each_key.first([errors.size - ERRORS + 1, 0].max).each { |key| @entries.delete(key) }
        end
      end

      # The answer that still counts.
      def fresh(entry)
        known = entry.answer
        known if known && (known.till.nil? || Clock.now < known.till)
      end
    end
  end
end
