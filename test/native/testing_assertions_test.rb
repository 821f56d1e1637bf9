# frozen_string_literal: true

require_relative "../test_helper"
require "open3"
require "tmpdir"
require "pelton/testing/minitest"

# What the assertions of pelton/testing/minitest accept, and what they say when they fail.
class TestingAssertionsTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    def process(message)
      raise ArgumentError, "order without a total" unless message.payload["total"]

      producer.produce_sync(topic: "paid", key: message.key, payload: message.raw_payload,
                            headers: { "trace" => "42", "kind" => "paid" })
    end
  end

  # Sends a letter by hand; its first transaction is aborted.
  class Dispatching < Pelton::Consumer
    def process(message)
      transaction do
        dispatch_to_dead_letters(message, reason: "no total")
        mark_as_consumed(message)
        raise ArgumentError, "too early" if attempt == 1
      end
    end
  end

  class Expired < Pelton::Consumer
    def consume = nil
  end

  def setup
    Pelton.configure { |config| config.group_id = "billing" }
    Pelton.routes do
      topic("orders", to: OrdersConsumer) do
        decode :json
        retries 1, then: :skip
        backoff 1..1
      end
      topic("halting", to: OrdersConsumer) { retries 0, then: :stop }
      topic("payments", to: Dispatching) do
        transactional "billing"
        dead_letters "payments.dead"
        backoff 1..1
      end
      topic("late", to: Expired) { expire_after 60 }
    end
  end

  def failure(&block) = assert_raises(Minitest::Assertion, &block).message

  def test_criteria_are_compared_by_value_class_pattern_and_block
    produce("orders", { "total" => 12.5, "tags" => %w[a b] }, key: "7")
    message = assert_produced("paid", payload: { "total" => 12.5, "tags" => ["a", /b/] }, key: /\A\d\z/,
                                      headers: { "trace" => "42" }, partition: 0, offset: 0..5)
    assert_equal "7", message.key
    assert_same message.class, Pelton::Message
    assert_produced("paid") { |candidate| candidate.payload["total"] > 12 }
    assert_equal 1, assert_produced("paid", count: 1).size
    refute_produced("paid", key: "8")
    refute_produced("shipped")
  end

  def test_a_failure_shows_what_was_expected_and_the_nearest_message
    produce("orders", { "total" => 1 }, key: "7")
    produce("orders", { "total" => 2 }, key: "8")
    text = failure { assert_produced("paid", payload: { "total" => 2 }, key: "9") }
    assert_equal ['expected a message of paid that was produced with payload {"total"=>2}, key "9", but found 0',
                  'nearest: paid partition 0, offset 1, key "8", payload {"total"=>2}, headers {"trace"=>"42", ' \
                  '"kind"=>"paid"}',
                  'also: paid partition 0, offset 0, key "7", payload {"total"=>1}, headers {"trace"=>"42", ' \
                  '"kind"=>"paid"}'].join("\n"), text.gsub(" => ", "=>")
    assert_match(/expected 3 messages of paid .* but found 2\n/, failure { assert_produced("paid", count: 3) })
    assert_match(/none of shipped that was produced, only of paid/, failure { assert_produced("shipped") })
    assert_match(/expected no message of paid that was produced with key "7", but found 1\nnearest: paid/,
                 failure { refute_produced("paid", key: "7") })
  end

  def test_a_failure_names_the_line_of_the_test
    plain = assert_raises(Minitest::Assertion) { flunk }.location
    skip "Minitest #{Minitest::VERSION} finds no lines on Ruby #{RUBY_VERSION}" unless plain.start_with?(__FILE__)
    produce("orders", { "total" => 1 }, key: "7")
    error = assert_raises(Minitest::Assertion) { refute_produced("paid") }
    assert_equal "#{__FILE__}:#{__LINE__ - 1}", error.location
    error = assert_raises(Minitest::Assertion) { assert_produced("shipped") }
    assert_equal "#{__FILE__}:#{__LINE__ - 1}", error.location
  end

  def test_a_failure_shows_errors_of_consumers
    produce("orders", {})
    text = failure { assert_produced("paid") }
    assert_match(/a consumer raised ArgumentError: order without a total at testing_assertions_test\.rb:\d+/, text)
  end

  def test_unknown_criteria_are_refused
    produce("orders", { "total" => 1 })
    error = assert_raises(Pelton::ConfigError) { assert_produced("paid", payloud: {}) }
    assert_equal "payloud: unknown criterion, did you mean payload?", error.message
    error = assert_raises(Pelton::ConfigError) { assert_skipped("orders", times: 1, attemps: 2) }
    assert_includes error.message, "attemps"
  end

  def test_failed_retried_and_skipped
    produce("orders", {}, key: "7")
    assert_failed("orders", error: ArgumentError, kind: :process, attempt: 1, offset: 0)
    assert_retried("orders", times: 1, delay: 1)
    refute_skipped("orders")
    travel 1
    assert_skipped("orders", error: /total/, attempts: 2)
    assert_failed("orders", times: 2)
    assert_committed("orders", up_to: 0)
    refute_consumed("orders")
  end

  def test_stopped
    produce("halting", {})
    produce("halting", { "total" => 1 })
    assert_stopped("halting", offset: 0, error: ArgumentError)
    refute_consumed("halting")
    assert_match(/found 0\nnearest: halting partition 0, up_to nil/, failure { assert_marked("halting", up_to: 0) })
  end

  def test_letters_of_an_aborted_transaction_counted
    produce("payments", "x")
    assert_failed("payments", error: /early/)
    refute_dead_lettered("payments")
    assert_match(/none of payments|found 0/, failure { assert_dead_lettered("payments") })
    travel 1
    assert_dead_lettered("payments", count: 1, error: "no total", attempts: 2)
    assert_produced("payments.dead", count: 1)
  end

  def test_dropped_by_age
    produce("late", "x", timestamp: (Pelton::Clock.wall * 1000).to_i - 61_000)
    produce("late", "y")
    assert_dropped("late", reason: :expired, count: 1)
    assert_equal ["y"], consumed_messages("late").map(&:raw_payload)
    assert_marked("late", up_to: 1)
  end

  def test_marks_are_named_by_message_or_offset
    message = produce("orders", { "total" => 1 })
    assert_marked("orders", up_to: message)
    assert_committed("orders", up_to: 0, partition: 0)
    assert_match(/partition 0, up_to 1, but found 0\nnearest: orders partition 0, up_to 0/,
                 failure { assert_committed("orders", up_to: 1) })
  end

  # --- strict --------------------------------------------------------------------------------------------------------

  # Runs tests that produce a message, and then do this. Returns what they failed with.
  def results(strict: true, **tests)
    made = Class.new(Minitest::Test) do
      define_method(:setup) { Pelton.producer.produce_sync(topic: "paid", payload: "x") }
      tests.each { |name, body| define_method(name, &body) }
    end
    Minitest::Runnable.runnables.delete(made)
    Pelton::Testing.strict = strict
    Thread.new do # it has no session, so the tests open their own
      tests.to_h { |name, _| [name, Minitest.run_one_method(made, name.to_s).failures.map(&:message).join] }
    end.value
  ensure
    Pelton::Testing.strict = false
  end

  def test_strict_tests_fail_for_messages_without_assertion
    results = results(test_forgets: -> { pass }, test_asserts: -> { assert_produced("paid") },
                      test_reads: -> { refute_empty produced_messages })
    assert_match(/messages that no assertion was about.*paid/m, results.delete(:test_forgets))
    assert_equal({ test_asserts: "", test_reads: "" }, results)
  end

  # The copies of a retry and of a failure are Pelton's own, and need none. Those with Karafka's headers are the test's.
  def test_strict_tests_fail_for_a_message_with_the_headers_of_karafkas_dead_letters
    names = %w[topic partition offset consumer_group attempts]
    headers = names.zip(%w[orders 0 3 billing 4]).to_h { |name, value| ["source_#{name}", value] }
    sends = lambda do
      Pelton.producer.produce_sync(topic: "moved", payload: "x", headers: headers)
      assert_produced("paid")
    end
    assert_match(/messages that no assertion was about.*moved/m, results(test_sends: sends)[:test_sends])
  end

  def test_without_strict_they_do_not
    assert_equal({ test_forgets: "" }, results(strict: false, test_forgets: -> { pass }))
  end
end

# With RSpec, as Debian installs it for the Ruby that it brings.
class TestingRSpecTest < Minitest::Test
  SPEC = <<~RUBY
    require "pelton/testing/rspec"

    class OrdersConsumer < Pelton::Consumer
      def process(message)
        raise KeyError, "poison" if message.payload["bad"]

        producer.produce_sync(topic: "paid", key: message.key, payload: message.raw_payload)
      end
    end

    class PaymentsConsumer < Pelton::Consumer
      def process(message)
        transaction { dispatch_to_dead_letters(message) && mark_as_consumed(message) && attempt == 1 && raise(KeyError) }
      end
    end

    Pelton.configure { |config| config.group_id = "billing" }
    Pelton.routes do
      topic("orders", to: OrdersConsumer) { retries 1; backoff 5..5; dead_letters "orders.dead" }
      topic("payments", to: PaymentsConsumer) { transactional "t"; backoff 5..5; dead_letters "payments.dead" }
    end

    RSpec.describe OrdersConsumer do
      2.times do |number|
        it "pays orders, \#{number}" do
          expect(consumer_for("orders")).to be_a(described_class)
          message = produce("orders", { "id" => 7, "total" => 1 }, key: "7")
          expect("paid").to have_produced(payload: a_hash_including("id" => 7), key: "7", count: 1)
          expect("orders").to have_committed(up_to: message)
          expect("shipped").not_to have_produced
        end
      end

      it "gives up" do
        produce("orders", { "bad" => true })
        travel 5
        expect("orders").to have_retried(times: 1)
        expect("orders").to have_dead_lettered(error: KeyError, attempts: 2)
        expect("orders.dead").to have_produced { |letter| letter.origin.attempts == 2 }
        expect("orders.dead").not_to have_produced do |letter|
          letter.origin.attempts == 3
        end
      end

      it "does not count letters of an aborted transaction" do
        produce("payments", "x")
        expect("payments").not_to have_dead_lettered
        travel 5
        expect("payments").to have_dead_lettered(count: 1, attempts: 2)
        expect("payments.dead").to have_produced(count: 1)
      end

      it "fails and says what is nearest" do
        produce("orders", { "id" => 7 })
        expect("paid").to have_produced(payload: a_hash_including("id" => 8))
      end

      it "fails because of strict" do
        Pelton::Testing.strict = true
        produce("orders", { "id" => 7 })
      ensure
        RSpec.configure { |config| config.append_after(:context) { Pelton::Testing.strict = false } }
      end
    end
  RUBY

  def test_matchers_and_hooks
    begin
      require "rspec/core"
    rescue LoadError
      skip "rspec is not installed for this Ruby (Debian: apt-get install ruby-rspec)"
    end
    output = Dir.mktmpdir do |folder|
      File.write(File.join(folder, "orders_spec.rb"), SPEC)
      root = File.expand_path("../..", __dir__)
      command = [RbConfig.ruby, "-w", "-I#{root}/lib", "-rrspec/autorun", File.join(folder, "orders_spec.rb")]
      Open3.capture2e(*command).first
    end
    assert_match(/^6 examples, 2 failures$/, output)
    assert_match(/produced with payload a hash including \{"id" ?=> ?8\}, but found 0\s+nearest: paid.*"id"/, output)
    assert_match(/messages that no expectation was about \(Pelton::Testing\.strict\): .*paid/, output)
    refute_match(/warn/, output)
  end
end
