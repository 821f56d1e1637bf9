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

  # A cluster has one controller: only this node listens for others.
  def test_a_broker_without_the_role_of_a_controller_does_not_listen_as_one
    both, broker = [{}, { "process.roles" => "broker", "node.id" => "2" }].map do |settings|
      BrokerKit.properties(9092, 9093, "/data", settings)[/^listeners=(.*)$/, 1]
    end
    assert_equal ["PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", "PLAINTEXT://127.0.0.1:9092"],
                 [both, broker]
  end

  def with(heap)
    before = ENV.fetch("PELTON_BROKER_JVM", nil)
    ENV["PELTON_BROKER_JVM"] = heap
    BrokerKit.java("-Dmark")
  ensure
    ENV["PELTON_BROKER_JVM"] = before
  end
end
