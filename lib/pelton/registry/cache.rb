# frozen_string_literal: true

require_relative "../clock"
require_relative "../errors"

module Pelton
  class Registry
    # What a registry answered, good or bad, for a time; and one request at a time for each thing.
    class Cache
      # value or error; till: a point of time, nil for ever. While it is asked for: owner, the process that asks.
      Entry = Struct.new(:value, :error, :till, :owner)
      # Errors kept at most: broken messages may name any id.
      ERRORS = 1000
      private_constant :Entry, :ERRORS

      #: () -> void
      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # {key => Entry}; under @lock.
        @entries = {}
      end

      # What is known of the key, or what the block returns: that is kept for `ttl` seconds (nil: for ever), a
      # RegistryError of it for what `error_ttl` says. Waits while another thread asks for the same.
      #: (untyped, Numeric?, ^(RegistryError) -> Numeric) { () -> untyped } -> untyped
      def fetch(key, ttl, error_ttl)
        known = claim(key)
        return answer(known) if known

        entry = nil
        begin
          entry = Entry.new(yield, nil, Clock.deadline(ttl))
        rescue RegistryError => e
          entry = Entry.new(nil, e, Clock.deadline(error_ttl.call(e)))
        ensure
          settle(key, entry) # nothing, if this thread was killed: another one asks
        end
        answer(entry)
      end

      private

      # What is known; nil: it is this thread's to ask.
      def claim(key)
        @lock.synchronize do
          while (entry = @entries[key])
            break if entry.owner && entry.owner != Process.pid # the parent's thread is none of ours
            return entry if entry.owner.nil? && fresh?(entry)
            break unless entry.owner

            @changed.wait(@lock)
          end
          @entries[key] = Entry.new(nil, nil, nil, Process.pid)
          nil
        end
      end

      def settle(key, entry)
        @lock.synchronize do
          entry ? @entries[key] = entry : @entries.delete(key)
          forget_errors if entry&.error
          @changed.broadcast
        end
      end

      # The oldest ones; their places in the Hash are those of their first question.
      def forget_errors
        errors = @entries.select { |_, entry| entry.error }
        errors.each_key.first([errors.size - ERRORS, 0].max).each { |key| @entries.delete(key) }
      end

      def fresh?(entry) = entry.till.nil? || Clock.now < entry.till

      # A new error each time: an exception is one thread's.
      def answer(entry) = entry.error ? raise(entry.error.dup) : entry.value
    end
  end
end
