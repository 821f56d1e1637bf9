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
    assert_equal with(nil) - BrokerKit::HEAP, given - %w[-Xmx2g -XX:+UseG1GC]
    assert_equal %w[-Xmx2g -XX:+UseG1GC -Dmark], given & %w[-Xmx2g -XX:+UseG1GC -Dmark]
  end

  def test_classes_that_the_first_broker_wrote_are_mapped_by_the_next_ones
    before = ENV.fetch("XDG_CACHE_HOME", nil)
    Dir.mktmpdir do |folder|
      ENV["XDG_CACHE_HOME"] = folder
      FileUtils.mkdir_p(BrokerKit.cache)
      BrokerKit.keep_classes(9092) # it was killed, so it wrote nothing
      written = BrokerKit.class_options(9092).first[/\A-XX:ArchiveClassesAtExit=(.+)/, 1]
      File.write(written, "classes")
      BrokerKit.keep_classes(9092)
      assert_equal "classes", File.read(BrokerKit.class_options(9093).first[/\A-XX:SharedArchiveFile=(.+)/, 1])
      refute_path_exists written
    end
  ensure
    ENV["XDG_CACHE_HOME"] = before
  end

  def with(heap)
    before = ENV.fetch("PELTON_BROKER_JVM", nil)
    ENV["PELTON_BROKER_JVM"] = heap
    BrokerKit.java("-Dmark")
  ensure
    ENV["PELTON_BROKER_JVM"] = before
  end
end
