# frozen_string_literal: true

require "test_helper"
require "open3"

# `require "pelton"` loads what a producer needs; a server and an HTTP client come with their first use.
class LoadingTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)
  # {"Pelton::" => file}
  LATER = { "Admin" => "admin", "Avro" => "avro", "Background" => "background", "DeadLetters" => "dead_letters",
            "EmbeddedCluster" => "embedded_cluster", "Iterator" => "iterator", "Liveness" => "server/liveness",
            "MissingTopics" => "server/missing_topics", "MskIam" => "msk_iam",
            "Parallel" => "decoding/parallel/parallel", "ProducerPool" => "producer_pool",
            "RactorPool" => "ractor_pool", "Registry" => "registry", "Server" => "server/server",
            "Subscription" => "subscription", "Web" => "web" }.freeze

  def test_requiring_pelton_loads_neither_a_server_nor_uri_nor_socket
    features = lines('require "pelton"; puts $LOADED_FEATURES')

    assert_operator features.grep(%r{/pelton/}).size, :>, 70
    assert_empty features.grep(%r{/pelton/(?:#{LATER.values.join("|")}|server/|consuming/|topics/|decoding/parallel/)})
    assert_empty features.grep(%r{/(?:uri|socket|date|weakref|etc)\.(?:rb|so)\z})
  end

  def test_parts_that_are_loaded_later_can_be_named_right_after_the_require
    names = [*LATER.keys, "Registry::Http"].map { |name| "Pelton::#{name}" }

    assert_equal names, lines("require \"pelton\"; puts [#{names.join(", ")}]")
    assert_equal names.reverse, lines("require \"pelton\"; puts [#{names.reverse.join(", ")}]")
  end

  # It warned of a circular require: the parts of each named the class, and its autoload loaded the file once more.
  def test_parts_can_be_required_by_their_own_name_without_a_warning
    [nil, "pelton"].each do |before|
      program = LATER.map do |name, file|
        "Process.wait(fork { require \"pelton/#{file}\"; puts Pelton::#{name}.name[8..] })"
      end
      program.unshift("require #{before.dump}") if before
      assert_equal LATER.keys, lines(["$stdout.sync = true", *program].join("\n"))
    end
  end

  def test_stats_of_an_app_without_a_server_need_none
    assert_equal %w[true 0], lines('require "pelton"; p Pelton.stats.key?(:threads), Pelton.stats[:leaked]')
  end

  private

  def lines(program)
    output, status = Open3.capture2e(RbConfig.ruby, "-w", "-I#{LIB}", "-e", program)
    assert_predicate status, :success?, output
    output.lines(chomp: true)
  end
end
