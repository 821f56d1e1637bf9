# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# Marks in the hook `revoked`, in which a consumer writes out what it has collected.
class LastMarksTest < Minitest::Test
  include ServerKit

  # Collects messages; its hook waits for the gate, then marks the last one.
  def collect
    gate = @gate = Thread::Queue.new
    begun = @begun = Thread::Queue.new
    log = @log
    Class.new(Pelton::Consumer) do
      define_method(:consume) { log << (@last = messages.last).offset }
      define_method(:revoked) do
        begun << revoked?
        gate.pop
        log << mark_as_consumed(@last)
      end
    end
  end

  # Returns the token of a revocation whose hook runs.
  def revoke_while_collecting(**settings)
    collecting = collect
    app(**settings).routes { topic("orders", to: collecting) { manual_offsets } }
    produce(2)
    start
    subscription.assign_now(["orders", 0])
    assert_equal 1, @log.pop
    token = subscription.revoke_now(["orders", 0])
    assert_equal true, @begun.pop
    token
  end

  def test_a_revocation_waits_for_the_hook_and_takes_its_mark_along
    token = revoke_while_collecting
    assert subscription.revoking?(token)
    assert_equal 0, @native.kafka.position("g", ["orders", 0])
    @gate.close
    assert_equal true, @log.pop
    eventually { !subscription.revoking?(token) }
    assert_equal 2, @native.kafka.position("g", ["orders", 0])
  end

  def test_a_hook_that_exceeds_revocation_timeout_marks_nothing
    token = revoke_while_collecting(revocation_timeout: 0.02)
    eventually { !subscription.revoking?(token) }
    @gate.close
    assert_equal false, @log.pop
    assert_equal 0, @native.kafka.position("g", ["orders", 0])
  end
end
