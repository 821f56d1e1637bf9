# frozen_string_literal: true

require_relative "../test_helper"
require "support/broker_kit"

# The command of the broker that tests and benches start.
class BrokerKitTest < Minitest::Test
  SERIAL = "-XX:+UseSerialGC"

  # Two collectors would keep the JVM from starting.
  def test_heap_setting_of_the_environment_replaces_the_default
    assert_includes with(nil), SERIAL
    assert_equal with(nil), with("")
    given = with("-Xmx2g  -XX:+UseG1GC")
    assert_equal with(nil).grep_v(/-Xm|#{Regexp.escape(SERIAL)}/), given - %w[-Xmx2g -XX:+UseG1GC]
    assert_equal %w[-Xmx2g -XX:+UseG1GC -Dmark], given & %w[-Xmx2g -XX:+UseG1GC -Dmark]
  end

  def with(heap)
    before = ENV.fetch("PELTON_BROKER_JVM", nil)
    ENV["PELTON_BROKER_JVM"] = heap
    BrokerKit.java("-Dmark")
  ensure
    ENV["PELTON_BROKER_JVM"] = before
  end
end
