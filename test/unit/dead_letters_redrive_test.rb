# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/dead_letters"

# What a redrive sends, how a run handles letters in transactions, and what the log of their status says.
class DeadLettersRedriveTest < Minitest::Test
  DeadLetters = Pelton::DeadLetters
  FAILED = { "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "42", "pelton.attempts" => "2",
             "pelton.group" => "billing", "pelton.error" => "IOError", "pelton.failure_id" => "f1" }.freeze
  COUNTS = { "orders" => 4, "small" => 2, "wide" => 8, "orders.retry.10" => 2, "orders.retry.0.5" => 8,
             "dead" => 1 }.freeze

  # Keeps what was committed; fails as it was told, and then knows what `recorded` says.
  class Session
    attr_reader :commits, :opened
    attr_accessor :errors, :recorded

    def initialize
      @commits = []
      @errors = []
      @recorded = []
      @opened = 0
    end

    def commit(messages)
      error = @errors.shift
      error = error.call(messages) if error.respond_to?(:call)
      raise error if error

      @commits << messages
    end

    def reopen = @opened += 1
    def log = DeadLetters::StatusLog.new(@recorded)
  end

  def letter(offset = 7, headers = FAILED, payload: "{}", **more)
    message = Fakes::Message.new("dead", 0, offset, payload, headers: headers, **more)
    DeadLetters::Letter.new(message) { nil }
  end

  def redrive(**options) = DeadLetters::Redrive.new(**options) { |topic| COUNTS[topic] }

  def sent(letter, **options)
    work = redrive(**options)
    assert_nil work.problem(letter)
    work.message(letter)
  end

  # --- what is sent -----------------------------------------------------------------------------------------------

  def test_message_as_it_was_goes_to_its_first_place
    message = sent(letter(7, { **FAILED, "trace" => %w[1 2] }, key: "k"))
    assert_equal ["orders", 3, "k", "{}"], message.values_at(:topic, :partition, :key, :payload)
    assert_equal({ "trace" => %w[1 2], "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "42",
                   "pelton.attempts" => "0", "pelton.redrives" => "1" }, message[:headers])
    refute message.key?(:timestamp), "an old one might let Kafka delete it at once"
  end

  def test_partition_that_is_gone_or_another_topic_leaves_the_choice_to_the_key
    counts = COUNTS.merge("orders" => 2)
    work = DeadLetters::Redrive.new { |topic| counts[topic] }
    assert_equal [nil, 1],
                 [work.message(letter(7, key: "k")), work.message(letter(7))].map { |message| message[:partition] }
    assert_equal [nil, 1], [letter(7, key: "k"), letter(7)].map { |letter| sent(letter, to: "small")[:partition] }
    assert_nil sent(letter(7, key: "k"), to: "wide")[:partition], "it has a partition 3, but for other keys"
    assert_equal 3, sent(letter(7, key: "k"), to: "orders")[:partition]
    foreign = letter(5, { "a" => "1" }, key: "k")
    assert_equal [nil, { "a" => "1" }], sent(foreign, to: "small").values_at(:partition, :headers)
  end

  def test_payload_that_repairs_a_letter_is_sent_with_its_key_and_headers
    omitted = { **FAILED, "trace" => "1", "pelton.payload_omitted" => "7 bytes" }
    repair = ->(letter) { "#{letter.raw_payload} at #{letter.place}" }
    message = sent(letter(7, omitted, key: "k", payload: nil), payload: repair)
    assert_equal ["orders", 3, "k", " at 0/7"], message.values_at(:topic, :partition, :key, :payload)
    assert_equal %w[trace pelton.topic pelton.partition pelton.offset pelton.attempts pelton.redrives],
                 message[:headers].keys
    assert_nil sent(letter, payload: ->(_letter) {})[:payload], "a tombstone"
    error = assert_raises(Pelton::ConfigError) { redrive(payload: ->(_) { { "total" => 1 } }).message(letter) }
    assert_match(%r{\Apayload = .*total.*: expected a String or nil from the call for the letter 0/7\z}, error.message)
    assert_match(/\Apayload = "x": expected an object with call/,
                 assert_raises(Pelton::ConfigError) { redrive(payload: "x") }.message)
  end

  def test_retry_topic_gets_the_group_and_no_due_time
    message = sent(letter(7, { **FAILED, "pelton.due_at" => "9" }, key: "k"), retry_topic: 10)
    assert_equal ["orders.retry.10", 1, "billing", "0", nil],
                 [message[:topic], message[:partition],
                  *message[:headers].values_at("pelton.group", "pelton.attempts", "pelton.due_at")]
    assert_equal "orders.retry.0.5", sent(letter, retry_topic: 0.5)[:topic]
    assert_equal "orders.retry.10", sent(letter, retry_topic: 10.0)[:topic]
  end

  def test_why_a_letter_cannot_be_sent
    { [letter(7, {}), {}] => "it has no origin: name the topic with `to`",
      [letter(7, FAILED.merge("pelton.payload_omitted" => "MSG_SIZE_TOO_LARGE")), { to: "small" }] =>
        "its payload was left out: MSG_SIZE_TOO_LARGE",
      [letter(7, FAILED.except("pelton.group")), { retry_topic: 10 }] =>
        "its group is unknown: a retry topic needs one",
      [letter, { retry_topic: 11 }] => "the topic orders.retry.11 does not exist",
      [letter(7, FAILED.merge("pelton.topic" => "gone")), {}] => "the topic gone does not exist",
      [letter, { to: "dead" }] => "it would come back to the dead letters" }.each do |(letter, options), problem|
      assert_equal problem, redrive(**options).problem(letter)
    end
  end

  def test_wrong_destinations_are_refused
    [{ to: "small", retry_topic: 10 }, { to: "no topic" }, { retry_topic: -1 }, { retry_topic: "10" }].each do |given|
      assert_raises(Pelton::ConfigError, given.inspect) { redrive(**given) }
    end
  end

  # --- the log ----------------------------------------------------------------------------------------------------

  def test_record_counts_for_its_letter_only
    letter = letter(7)
    message = DeadLetters::StatusLog.message(letter, :redriven, to: "orders")
    assert_equal ["dead.status", "0/7"], message.values_at(:topic, :key)
    log = log_of(message)
    assert_equal [:redriven, "orders"], [log.of(letter).status, log.of(letter).to]
    assert_in_delta Time.now, log.of(letter).at, 60
    assert_nil log.of(letter(8))
    assert_nil log.of(letter(7, FAILED.merge("pelton.failure_id" => "f2"))), "the topic was created again"
    foreign = letter(7, {}, payload: "a", key: "k")
    log = log_of(DeadLetters::StatusLog.message(foreign, :deleted))
    assert_equal :deleted, log.of(foreign).status
    assert_nil log.of(letter(7, {}, payload: "b", key: "k"))
  end

  def log_of(*messages)
    DeadLetters::StatusLog.new(messages.map do |message|
      Fakes::Message.new("dead.status", 0, 0, message[:payload], key: message[:key])
    end)
  end

  def test_log_forgets_tombstones_and_ignores_other_messages
    message = DeadLetters::StatusLog.message(letter, :redriven)
    assert_nil log_of(message, { key: "0/7", payload: nil }).of(letter)
    ["{", "[]", "{}", "\xFF"].each { |text| assert_nil log_of({ key: "0/7", payload: text }).of(letter) }
  end

  def test_records_of_letters_that_kafka_deleted
    log = log_of(*%w[0/7 0/8 1/7 9/0].map { |place| { key: place, payload: "{}" } }, { key: nil, payload: "x" })
    assert_equal ["0/7"], log.expired({ 0 => 8, 1 => 7 })
  end

  # --- a run ------------------------------------------------------------------------------------------------------

  def run_of(letters, session: @session = Session.new, work: redrive, **limits)
    @seen = []
    DeadLetters::Run.new(work, session, **limits) { |letter, problem| @seen << [letter.offset, problem] }.call(letters)
  end

  def letters(count) = (0...count).map { |offset| letter(offset, FAILED.merge("pelton.failure_id" => "f#{offset}")) }

  def test_letters_go_in_transactions_of_a_hundred_with_their_records
    result = run_of(letters(250))
    assert_equal [250, {}, nil], result.to_a
    assert_equal [200, 200, 100], @session.commits.map(&:size)
    assert_equal %w[orders dead.status] * 100, @session.commits.first.map { |row| row[:topic] }
    assert_equal (0...250).to_a, @seen.map(&:first)
  end

  def test_large_letters_go_alone
    run_of([letter(0, payload: "x" * 600_000), letter(1, payload: "x" * 600_000), letter(2, payload: "x")])
    assert_equal [2, 4], @session.commits.map(&:size)
  end

  def test_limit_and_skipped_letters
    mixed = [letter(0), letter(1, {}), letter(2), letter(3), letter(4)]
    result = run_of(mixed, limit: 2)
    assert_equal [2, { "it has no origin: name the topic with `to`" => 1 }, "0/3"], result.to_a
    assert_equal [0, 2], @seen.reject(&:last).map(&:first)
    assert_nil run_of(mixed.first(3), limit: 2).stopped_at, "there is no further letter"
  end

  def test_a_deletion_only_records
    run_of(letters(2), work: DeadLetters::Deletion.new)
    assert_equal [%w[dead.status dead.status]], @session.commits.map { |rows| rows.map { |row| row[:topic] } }
  end

  def test_a_dry_run_sends_nothing_and_does_not_wait
    assert_equal [3, {}, nil], run_of(letters(3), session: nil, rate: 0.001).to_a
    assert_equal [0, 1, 2], @seen.map(&:first)
  end

  def test_a_stop_ends_between_two_letters_and_says_where
    stop = Pelton::Background::Stop.new
    @seen = []
    run = DeadLetters::Run.new(redrive, Session.new, rate: 10, stop: stop) do |letter, _|
      @seen << letter.offset
      stop.ask if letter.offset == 1
    end
    assert_equal [2, {}, "0/2"], run.call(letters(5)).to_a
    assert_equal [0, 1], @seen
    asked = Pelton::Background::Stop.new.tap(&:ask)
    assert_equal [0, {}, "0/0"], run_of(letters(2), stop: asked).to_a
  end

  def test_rate_limits_the_letters_of_a_second
    started = Pelton::Clock.now
    run_of(letters(11), rate: 20)
    assert_operator Pelton::Clock.now - started, :>=, 0.45
    assert_equal ([4] * 5) + [2], @session.commits.map(&:size)
  end

  # --- failed transactions ----------------------------------------------------------------------------------------

  def error(name, fatal: false, retriable: false, abortable: false)
    Pelton::KafkaError.new(1, name, "broker", fatal, retriable, abortable)
  end

  def test_transaction_that_may_succeed_later_is_repeated
    session = Session.new
    session.errors = [error(:A, retriable: true), Pelton::TransactionError.new("producer", :unknown)]
    assert_equal 3, run_of(letters(3), session: session).handled
    assert_equal [[6], 2], [session.commits.map(&:size), session.opened]
    session.errors = Array.new(3) { error(:A, abortable: true) }
    assert_raises(Pelton::KafkaError) { run_of(letters(3), session: session) }
    assert_empty @seen
  end

  # INVALID_TXN_STATE, when four runs began at once.
  def test_transaction_whose_client_ended_is_repeated_by_the_next_client
    session = Session.new
    session.errors = [error(:INVALID_TXN_STATE, fatal: true)]
    assert_equal 3, run_of(letters(3), session: session).handled
    assert_equal [[6], 1], [session.commits.map(&:size), session.opened]
    session.errors = Array.new(3) { error(:INVALID_TXN_STATE, fatal: true) }
    assert_raises(Pelton::KafkaError) { run_of(letters(3), session: session) }
  end

  def test_transaction_that_was_committed_after_all_is_not_repeated
    session = Session.new
    session.errors = [lambda { |messages|
      session.recorded = messages.select { |message| message[:topic] == "dead.status" }
                                 .map { |message| Fakes::Message.new("s", 0, 0, message[:payload], key: message[:key]) }
      Pelton::TransactionError.new("producer", :unknown)
    }]
    assert_equal 3, run_of(letters(3), session: session).handled
    assert_equal [[], [0, 1, 2]], [session.commits, @seen.map(&:first)]
  end

  def test_refused_letter_stays_open_and_others_go
    session = Session.new
    refusal = lambda do |messages|
      error(:MSG_SIZE_TOO_LARGE) if messages.any? { |message| message[:key] == "0/1" }
    end
    session.errors = [refusal] * 4
    result = run_of(letters(3), session: session)
    assert_equal [2, 1], [result.handled, result.skipped.values.sum]
    assert_match(/\Ait was refused: .*MSG_SIZE_TOO_LARGE/, result.skipped.keys.first)
    assert_equal %w[0/0 0/2], session.commits.map { |rows| rows.last[:key] }
  end

  def test_letter_that_the_producer_does_not_take_is_skipped
    session = Session.new
    session.errors = [Pelton::InvalidMessageError.new(:headers, { "" => "x" })] * 2
    result = run_of(letters(1), session: session)
    assert_equal [0, 1, 1], [result.handled, result.skipped.values.sum, session.opened]
    assert_match(/\Ait was refused: headers/, result.skipped.keys.first)
  end

  def test_other_errors_end_the_run
    session = Session.new
    session.errors = [nil, error(:TOPIC_AUTHORIZATION_FAILED)]
    failed = assert_raises(Pelton::KafkaError) { run_of(letters(150), session: session) }
    assert_equal ["orders: broker", :TOPIC_AUTHORIZATION_FAILED, 100], [failed.reason, failed.name, @seen.size]
    session.errors = [Pelton::DeadLettersFenced.new("dead")]
    assert_raises(Pelton::DeadLettersFenced) { run_of(letters(1), session: session) }
  end

  # The caller's error is not one of the transaction.
  def test_error_of_the_block_is_not_taken_for_one_of_kafka
    run = DeadLetters::Run.new(redrive, session = Session.new) { raise error(:A, retriable: true) }
    assert_raises(Pelton::KafkaError) { run.call(letters(1)) }
    assert_equal [1, 0], [session.commits.size, session.opened]
  end

  def test_wrong_arguments_are_refused_before_anything_is_asked
    letters = DeadLetters.new(Pelton::Config.new, "dead")
    { limit: 0, rate: 0, status: :done, error: 7, unknown: 1, stop: 5 }.each do |name, value|
      assert_raises(Pelton::ConfigError, name) { letters.redrive(**{ name => value }) }
      assert_raises(Pelton::ConfigError, name) { letters.delete(**{ name => value }) }
    end
    assert_raises(Pelton::ConfigError) { letters.count_by(:payload) }
    assert_raises(Pelton::ConfigError) { letters.each(errors: "x") }
    assert_raises(Pelton::ConfigError) { DeadLetters.new(Pelton::Config.new, "no topic") }
  end
end
