# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../runtime/threads"
require_relative "../errors"

module Pelton
  class Registry
    # Keeps a registry's answers and errors for a time. For each key, one request runs at a time.
    class Cache
      # answer: nil until the first one. lock: held by the thread that sends the request. Ruby releases it even if the
      # thread is interrupted or killed, or after a fork. So no thread waits for a request that nothing will finish.
      # renewal: the thread that asks for a newer value; waits_till: when callers stop waiting for it. Both nil before.
      Entry = Struct.new(:lock, :answer, :renewal, :waits_till)
      # A value or an error. till: when it expires, on the monotonic clock; nil: never.
      Answer = Struct.new(:value, :error, :till)
      # The largest number of errors that are kept. Broken messages may contain any id.
      ERRORS = 1000
      private_constant :Entry, :Answer, :ERRORS

      # outage: the least number of seconds for which an expired value counts again, if the registry did not answer.
      # patience: seconds that a call waits for a newer value, if it has an expired one.
      #: (?outage: Numeric, ?patience: Numeric) -> void
      def initialize(outage: 0, patience: 1)
        @outage = outage
        @patience = patience
        @lock = Mutex.new
        # {key => Entry}. Guarded by @lock.
        @entries = {}
      end

      # Returns the kept value of the key, or the block's result, which it keeps for `ttl` seconds (nil: without limit).
      # It keeps a RegistryError for the seconds that `error_ttl` returns. Waits while another thread requests the same
      # key. With an expired value, it waits up to `patience` seconds for a newer one, then returns the expired one. The
      # request goes on, on a thread of its own.
      #: (untyped, Numeric?, ^(RegistryError) -> Numeric) { () -> untyped } -> untyped
      def fetch(key, ttl, error_ttl, &look_up)
        entry = @lock.synchronize { @entries[key] ||= Entry.new(Mutex.new) }
        ask = -> { entry.lock.synchronize { fresh(entry) || ask(entry, ttl, error_ttl, look_up) } }
        known = fresh(entry) || renewed(entry, ask) || ask.call
        # A new error each time, because threads must not share an exception.
        known.error ? raise(known.error.dup) : known.value
      end

      private

      # The newer answer, or after `patience` seconds the expired value; nil: there is none.
      def renewed(entry, ask)
        thread = @lock.synchronize { renewal(entry, ask) if value?(entry) } or return
        thread.join(Clock.left(entry.waits_till))
        entry.answer
      rescue ThreadError # no thread can start
        nil
      end

      def renewal(entry, ask)
        return entry.renewal if entry.renewal&.alive?

        entry.waits_till = Clock.deadline(@patience)
        # An unexpected error is raised by the calls that wait. The next one asks by itself.
        failed = ->(error) { entry.answer = Answer.new(nil, error, Clock.now) }
        entry.renewal = Threads.start("pelton.registry", report: failed, &ask)
      end

      def ask(entry, ttl, error_ttl, look_up)
        entry.answer = Answer.new(look_up.call, nil, Clock.deadline(ttl))
      rescue RegistryError => e
        seconds = error_ttl.call(e)
        if outlasts?(entry, e)
          entry.answer = Answer.new(entry.answer.value, nil, Clock.deadline([seconds, @outage, *ttl].max))
        else
          forget_errors
          entry.answer = Answer.new(nil, e, Clock.deadline(seconds))
        end
      end

      # Does the old value stay in use, because the registry did not answer?
      def outlasts?(entry, error)
        value?(entry) && (error.status.nil? || error.status >= 500)
      end

      def value?(entry) = !entry.answer.nil? && entry.answer.error.nil?

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
