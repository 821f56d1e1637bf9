# frozen_string_literal: true

require "stringio"
require "pelton/app"
require "pelton/web"
require "support/admin_kit"
require "support/fake_groups"

# A dashboard on a fake cluster, without sockets: `get("/groups")` is its answer.
module WebKit
  include AdminKit

  ENTITIES = { "&amp;" => "&", "&lt;" => "<", "&gt;" => ">", "&quot;" => '"', "&#39;" => "'" }.freeze

  Answer = Struct.new(:status, :headers, :body) do
    # The text that a reader sees.
    def text = body.gsub(/<[^>]*>/, " ").squeeze(" \n").gsub(/&(?:amp|lt|gt|quot|#39);/, ENTITIES)
  end

  LOCAL = { "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost:9293" }.freeze

  def setup
    super
    @groups = Fakes::Groups.new
    @answers.merge!(@groups.answers)
    @answers[:cluster] = ["cluster", 1, [[1, "kafka-1", 9092, nil]]]
    @answers[:config] = [["orders", nil, [["retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", false, false]]]]
    @app = Pelton::App.new(native: @module)
    @app.config.logger = nil
    @reported = []
    @app.subscribe("error.occurred") { |event| @reported << event[:error] }
    @web = Pelton::Web.new(@app)
  end

  def teardown
    @web.close
    @app.close
    super
  end

  # Two partitions, of which the group has done 50 of 60 messages, and all.
  def orders
    @answers[:names] = ["orders"]
    @groups.logs.merge!({ ["orders", 0] => 10...60, ["orders", 1] => 0...30 })
    @groups.commits["billing"] = { ["orders", 0] => [50, ""], ["orders", 1] => [30, ""] }
    @groups.members["billing"] = [["m-1", "billing", nil, "/10.0.0.1", [["orders", 0], ["orders", 1]]]]
  end

  def get(path, query = {}, web: @web, verb: "GET", **env)
    status, headers, body = web.call({ **LOCAL,
                                       "REQUEST_METHOD" => verb, "PATH_INFO" => path, "SCRIPT_NAME" => "",
                                       "QUERY_STRING" => URI.encode_www_form(query), **env.transform_keys(&:to_s) })
    Answer.new(status, headers, body.join)
  end
end
