# frozen_string_literal: true

require_relative "../test_helper"
require "support/admin_kit"
require "support/fake_groups"
require "pelton/cli/cli"
require "stringio"

# `pelton groups …` for a group that the routes have on a cluster of its own.
class GroupsElsewhereTest < Minitest::Test
  include AdminKit

  def setup
    super
    @kafka = Fakes::Groups.new
    @kafka.commits["billing"] = { ["orders", 0] => [40, ""] }
    @answers.merge!(@kafka.answers)
  end

  # What `pelton groups …` says when it fails.
  def refused(*arguments)
    app = Pelton::App.new(native: @module)
    app.configure do |config|
      config.kafka = { "bootstrap.servers" => "a:1" }
      config.logger = nil
    end
    app.routes do
      group("reports", kafka: { "bootstrap.servers" => "b:1" }) { topic "bills", to: "BillsConsumer" }
      topic "orders", to: "OrdersConsumer"
    end
    err = StringIO.new
    cli = Pelton::CLI.new(["groups", *arguments], app: app, out: StringIO.new, err: err, input: StringIO.new, env: {})
    assert_equal 1, cli.run
    err.string
  end

  # `pelton groups copy app app_x -r app.rb` and `groups lag app_x -r app.rb` said only that the group is unknown.
  def test_a_group_of_the_routes_on_another_cluster_was_unknown_without_a_hint
    text = "unknown group in this cluster; the routes have reports on another one: add --bootstrap b:1\n"
    assert_equal "pelton: reports: #{text}", refused("lag", "reports")
    assert_equal "pelton: shop: #{text}", refused("copy", "shop", "reports")
    assert_equal "pelton: shop: unknown group, known are billing\n", refused("copy", "shop", "web")
    known = "pelton: reports: unknown group, known are billing\n"
    assert_equal known, refused("lag", "reports", "--bootstrap", "b:1")
  end
end
