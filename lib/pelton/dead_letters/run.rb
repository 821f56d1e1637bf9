# frozen_string_literal: true

require_relative "../background"
require_relative "../errors"
require_relative "../runtime/clock"
require_relative "filter"
require_relative "status_log"

module Pelton
  class DeadLetters
    # What a redrive or a deletion did. handled: letters that were redriven or deleted (in a dry run: would be).
    # skipped: {why => number of letters}. stopped_at: the place of the first letter that was not looked at, because of
    # `limit` or `stop`; nil: all were.
    #: (handled: Integer, skipped: Hash[String, Integer], stopped_at: String?) -> void
    Result = Struct.new(:handled, :skipped, :stopped_at, keyword_init: true)

    # One redrive or deletion: takes letters in their order and handles them in transactions of up to 100.
    class Run
      BATCH = 100
      # Bytes of payloads per transaction; one larger letter goes alone.
      BYTES = 1_000_000
      # How often a transaction is tried.
      ATTEMPTS = 3
      private_constant :BATCH, :BYTES, :ATTEMPTS

      # work: a Redrive or Deletion. session: nil for a dry run. The block gets each letter when it is done, with
      # nil, or the reason why it was skipped.
      #: (untyped, Session?, ?filter: Filter, ?rate: Numeric?, ?limit: Integer?, ?stop: Background::Stop?)
      #:   ?{ (Letter, String?) -> void } -> void
      def initialize(work, session, filter: Filter.new({}), rate: nil, limit: nil, stop: nil, &report)
        @work = work
        @session = session
        @filter = filter
        @rate = rate
        @limit = limit
        @stop = stop || Background::Stop.new
        @report = report
        # Letters for the next transaction.
        @batch = []
        @size = rate ? (rate / 10.0).ceil.clamp(1, BATCH) : BATCH
        # When the next transaction may begin.
        @next_at = Clock.now
        @result = Result.new(handled: 0, skipped: Hash.new(0), stopped_at: nil)
      end

      #: (Enumerable[Letter]) -> Result
      def call(letters)
        letters.each { |letter| break unless take(letter) }
        handle if @batch.any?
        @result.skipped.default = nil
        @result.freeze
      end

      private

      # Returns false if the run ends before this letter. A stop is noticed at any letter.
      def take(letter)
        return stop_at(letter) if @stop.stop?
        return true unless @filter.match?(letter)
        return stop_at(letter) if @limit && @result.handled + @batch.size >= @limit

        problem = @work.problem(letter)
        return skip(letter, problem) if problem

        handle if @batch.any? && bytes + letter.message.size > BYTES
        return false if @result.stopped_at

        @batch << letter
        handle if @batch.size >= @size
        @result.stopped_at.nil?
      end

      # After a stop, the letters of the batch are not handled.
      def stop_at(letter)
        if @stop.stop?
          letter = @batch.first || letter
          @batch = []
        end
        @result.stopped_at = letter.place
        false
      end

      def bytes = @batch.sum { |letter| letter.message.size }

      def handle
        return stop_at(@batch.first) if wait

        letters = @batch
        @batch = []
        settle(letters)
      end

      # Keeps to the rate, except in a dry run. Returns true if the run shall stop.
      def wait
        return false unless @rate && @session

        stopped = @stop.wait([@next_at - Clock.now, 0].max)
        @next_at = [@next_at, Clock.now].max + (@batch.size / @rate.to_f)
        stopped
      end

      # Repeats a transaction that failed. Of one with a message that Kafka refuses for good, each letter gets its own.
      def settle(letters, attempt = 1)
        error = failure(letters) if @session
        handled, left = letters.partition { |letter| error.nil? || recorded?(letter) }
        handled.each { |letter| done(letter) }
        again(left, error, attempt) if left.any?
      end

      # Why the transaction failed, or may have failed; nil: it is committed.
      def failure(letters)
        @session.commit(letters.flat_map { |letter| messages(letter) })
        nil
      rescue KafkaError, TransactionError, WaitTimeout, InvalidMessageError => e
        @session.reopen
        e
      end

      # Did the transaction with this letter succeed after all?
      def recorded?(letter) = @session.log.of(letter)&.at != letter.handled_at

      def again(letters, error, attempt)
        if refused?(error) && letters.size > 1 then letters.each { |letter| settle([letter]) }
        elsif refused?(error) then skip(letters.first, "it was refused: #{error.message}")
        elsif attempt < ATTEMPTS && transient?(error) then settle(letters, attempt + 1)
        else raise error.is_a?(KafkaError) ? error.about(targets(letters)) : error
        end
      end

      # Will this message be refused each time?
      def refused?(error) = error.is_a?(KafkaError) ? error.message_refused? : error.is_a?(InvalidMessageError)

      # "orders, bills"
      def targets(letters) = letters.filter_map { |letter| @work.target(letter) }.uniq.join(", ")

      # A fatal error ended the client, and `failure` has opened another one. (A session that lost its right to another
      # raises DeadLettersFenced, which is no KafkaError.)
      def transient?(error) = !error.is_a?(KafkaError) || error.retriable? || error.abortable? || error.fatal?

      def messages(letter)
        [@work.message(letter), StatusLog.message(letter, @work.status, to: @work.target(letter))].compact
      end

      def done(letter)
        @result.handled += 1
        @report&.call(letter, nil)
      end

      def skip(letter, reason)
        @result.skipped[reason] += 1
        @report&.call(letter, reason)
        true
      end
    end
  end
end
