# frozen_string_literal: true

require "test_helper"
require "open3"

# `require "pelton"` loads what a producer needs; a server and an HTTP client come with their first use.
class LoadingTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)

  def test_requiring_pelton_loads_neither_a_server_nor_uri_nor_socket
    features = lines('require "pelton"; puts $LOADED_FEATURES')

    assert_operator features.grep(%r{/pelton/}).size, :>, 100
    assert_empty features.grep(%r{/pelton/(?:server/server|liveness|registry/http|consuming/partition/)})
    assert_empty features.grep(%r{/(?:uri|socket)\.rb\z})
  end

  def test_parts_that_are_loaded_later_can_be_named_right_after_the_require
    names = %w[Pelton::Server Pelton::Liveness Pelton::Registry::Http Pelton::Web Pelton::MskIam]

    assert_equal names, lines("require \"pelton\"; puts [#{names.join(", ")}]")
  end

  # It warned of a circular require: the parts of each named the class, and its autoload loaded the file once more.
  def test_parts_can_be_required_by_their_own_name_without_a_warning
    %w[Web MskIam].zip(%w[web msk_iam]) do |name, file|
      assert_equal [name], lines("require \"pelton\"; require \"pelton/#{file}\"; puts Pelton::#{name}.name[8..]")
      assert_equal [name], lines("require \"pelton/#{file}\"; puts Pelton::#{name}.name[8..]")
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
