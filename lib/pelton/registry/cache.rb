# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Registry
    # Keeps a registry's answers and errors for a time. For each key, one request runs at a time.
    class Cache
      # answer: nil until the first one. lock: held by the thread that sends the request. Ruby releases it even if the
      # thread is interrupted or killed, or after a fork. So no thread waits for a request that nothing will finish.
      Entry = Struct.new(:lock, :answer)
      # A value or an error. till: when it expires, on the monotonic clock; nil: never.
      Answer = Struct.new(:value, :error, :till)
      # The largest number of errors that are kept. Broken messages may contain any id.
      ERRORS = 1000
      private_constant :Entry, :Answer, :ERRORS

      #: () -> void
      def initialize
        @lock = Mutex.new
        # {key => Entry}. Guarded by @lock.
        @entries = {}
      end

      # Returns the kept value of the key, or the block's result, which it keeps for `ttl` seconds (nil: without limit).
      # It keeps a RegistryError for the seconds that `error_ttl` returns. If the registry does not answer, an expired
      # value counts for that time again. Waits while another thread requests the same key.
      #: (untyped, Numeric?, ^(RegistryError) -> Numeric) { () -> untyped } -> untyped
      def fetch(key, ttl, error_ttl, &look_up)
        entry = @lock.synchronize { @entries[key] ||= Entry.new(Mutex.new) }
        known = fresh(entry) || entry.lock.synchronize { fresh(entry) || ask(entry, ttl, error_ttl, look_up) }
        # A new error each time, because threads must not share an exception.
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

      # Does the old value stay in use, because the registry did not answer?
      def outlasts?(entry, error)
        known = entry.answer
        known && known.error.nil? && (error.status.nil? || error.status >= 500)
      end

      # Removes the oldest errors. The Hash has the order of the first requests.
      def forget_errors
        @lock.synchronize do
          errors = @entries.select { |_, entry| entry.answer&.error }
          errors.each_key.first([errors.size - ERRORS + 1, 0].max).each { |key| @entries.delete(key) }
        end
      end

      # The answer, unless it has expired.
      def fresh(entry)
        known = entry.answer
        known if known && (known.till.nil? || Clock.now < known.till)
      end
    end
  end
end
