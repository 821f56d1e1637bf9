# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "support/interrupting"

# Interrupts (Thread#raise and Thread#kill) at every single point of a transaction, its end above all: nobody waits for
# an owner that is gone, no call meets another, and what is told is what became of it.
class TransactionInterruptsTest < Minitest::Test
  include FakeTransactions
  include Interrupting

  NoPause = Class.new { def self.wait(*) = nil }
  OFFSETS = { ["in", 0] => 42 }.freeze

  def test_a_commit
    hammer { |transaction| transaction.mark_as_consumed(OFFSETS, Marks.new) }
  end

  def test_an_abort
    hammer { raise Pelton::AbortTransaction }
  end

  def test_a_commit_that_is_tried_again
    hammer(-> { failing(:commit, error(7, retriable: true)) })
  end

  def test_a_commit_that_was_carried_out_without_an_answer
    late = lambda do
      errors = [error(-185, retriable: true)] * 5
      lambda do |made|
        made.late_commit = true
        made.on_step = ->(name, _) { name == :commit && (error = errors.shift) && raise(error) }
      end
    end
    hammer(late)
  end

  def test_a_client_that_is_replaced
    hammer(-> { failing(:commit, error(48, fatal: true)) })
    hammer(-> { failing(:abort, error(-185)) }) { raise Pelton::AbortTransaction }
  end

  private

  # Tries every point there is. prepare: makes what the native producer is prepared with.
  def hammer(prepare = nil, &deed)
    points = 0
    %i[raise kill].each do |kind|
      (1..).each do |at|
        setup
        @producer = nil
        trap = Trap.new(at, kind)
        interrupted(trap, prepare, deed)
        trap.close
        goes_on("#{kind} at #{at}")
        @producer.close(timeout: 5) # each has a thread of events
        break unless trap.sprung?

        points += 1
      end
    end
    assert_operator points, :>, 100
    eventually(20, "the end of the threads of events") { Pelton::Threads.list.map(&:name).grep(/events/).empty? }
  end

  def interrupted(trap, prepare, deed)
    producer.transaction { 1 } # everything is open
    producer.client.instance_variable_set(:@pause, NoPause) # between attempts
    @events.clear
    prepare&.call&.call(fake)
    @returned = nil
    a_thread do
      trap.surround do
        @returned = producer.transaction do |tx|
          tx.produce_async(**row("first"))
          deed&.call(tx)
          :returned
        end
      rescue Pelton::Error
        nil
      end
    end
  end

  # Others can use it, and what was told is true.
  def goes_on(place)
    @native.producers.each { |producer| producer.on_step = nil }
    second = a_thread_of_its_own { producer.transaction { producer.produce_async(**row("second")) } }
    assert_predicate second, :itself, "#{place}: another thread waits for an owner that is gone"
    all = @native.producers.flat_map(&:committed)
    assert_equal 1, all.count("second"), place
    told = names.grep(/transaction/)[0..-2]
    assert_operator told.size, :<=, 1, place
    was = all.include?("first")
    assert was, "#{place}: it returned" if @returned == :returned
    return if told.empty?

    assert_equal "transaction.#{was ? "committed" : "aborted"}", told.first, place
  end

  # Its end within 20 s.
  def a_thread_of_its_own(&block)
    thread = Pelton::Threads.start("test", report: ->(error) { @failure = error }, &block)
    ended = thread.join(60)
    flunk @failure.full_message if @failure
    ended
  ensure
    thread&.kill
  end
end
