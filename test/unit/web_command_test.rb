# frozen_string_literal: true

require_relative "../test_helper"
require "net/http"
require "stringio"
require "support/web_kit"
require "pelton/cli/cli"
require "pelton/web/http_server"

# `pelton web`, and its HTTP server on real sockets of this machine.
class WebCommandTest < Minitest::Test
  include WebKit

  def setup
    super
    @server = Pelton::Web::HttpServer.new(@web, bind: "127.0.0.1", port: 0, bus: @app.notifications)
  end

  def teardown
    @server.close
    super
  end

  # The answer to these bytes.
  def send_bytes(text)
    TCPSocket.open("127.0.0.1", @server.port) do |socket|
      socket.write(text)
      socket.close_write
      socket.read
    end
  end

  def command(*arguments, env: {}, out: StringIO.new)
    @out = out
    @err = StringIO.new
    Pelton::CLI.new(["web", "--bootstrap", "x:9092", *arguments], app: @app, out: @out, err: @err, env: env).run
  end

  def test_pages_come_over_http
    orders
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      page = http.get("/topic?name=orders")
      assert_equal ["200", "text/html; charset=utf-8"], [page.code, page["content-type"]]
      assert_includes page.body.force_encoding("UTF-8"), "Topic orders"
      assert_equal "200", http.get("/assets/live.js").code
      assert_equal "", http.head("/").body.to_s
    end
  end

  def test_requests_that_are_not_http_are_refused
    assert_match(%r{\AHTTP/1\.1 400 }, send_bytes("hello\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 400 }, send_bytes("GET / HTTP/2\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 400 }, send_bytes("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 411 }, send_bytes("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 413 }, send_bytes("GET / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 431 }, send_bytes("GET / HTTP/1.1\r\nX: #{"x" * 17_000}"))
    assert_equal "", send_bytes("GET / HT"), "an incomplete request"
  end

  def test_many_requests_at_once
    orders
    threads = Array.new(40) do
      Pelton::Threads.start("test") do
        Thread.current[:code] = Net::HTTP.get_response("127.0.0.1", "/", @server.port).code
      end
    end
    threads.each(&:join)
    assert_equal ["200"], threads.map { |thread| thread[:code] }.uniq
  end

  def test_live_answers_without_a_password_and_without_kafka
    closed = Pelton::Web.new(@app, user: "ops", password: "secret")
    server = Pelton::Web::HttpServer.new(closed, bind: "127.0.0.1", port: 0, bus: @app.notifications, base: "/kafka")
    codes = { "/live" => "200", "/kafka/live" => "200", "/" => "401", "/live/" => "401", "/kafka" => "401" }
    codes.each do |path, code|
      response = Net::HTTP.get_response("127.0.0.1", path, server.port)
      assert_equal code, response.code, path
      assert_equal "ok\n", response.body, path if code == "200"
    end
    assert_equal "401", Net::HTTP.post(URI("http://127.0.0.1:#{server.port}/live"), "").code
    assert_empty Pelton::Threads.list.map(&:name).grep(/history/), "no look at the cluster"
  ensure
    server&.close
    closed&.close
  end

  # Elsewhere, the app has a health check of its own.
  def test_a_mounted_dashboard_has_no_live
    assert_equal 404, get("/live").status
  end

  # Sends a signal when a reader has the address.
  class Signaling < StringIO
    def initialize(signal)
      super()
      @signal = signal
    end

    def flush
      port = Integer(string[/:(\d+)/, 1])
      Pelton::Threads.start("test") do
        Net::HTTP.get_response("127.0.0.1", "/live", port)
        Process.kill(@signal, Process.pid)
      end
      super
    end
  end

  def test_a_signal_is_the_normal_end
    %w[TERM INT].each do |signal|
      assert_equal 0, command("--port", "0", out: Signaling.new(signal)), signal
      assert_match(%r{\Adashboard: http://127\.0\.0\.1:\d+/\n\z}, @out.string)
    end
  end

  def test_an_address_that_others_reach_needs_a_password
    assert_equal 1, command("--bind", "0.0.0.0", "--port", "0")
    assert_match(/--bind = "0\.0\.0\.0": is reachable from other machines/, @err.string)
    assert_equal 1, command("--user", "ops", "--port", "0")
    assert_match(/PELTON_WEB_PASSWORD.*is not set/, @err.string)
  end

  def test_a_port_that_is_taken_is_an_error
    assert_equal 1, command("--port", @server.port.to_s)
    assert_match(/cannot listen on this address/, @err.string)
    assert_equal 1, command("--port", "70000")
    assert_match(/--port = 70000: expected an Integer, 0 to 65535/, @err.string)
  end

  def test_a_path_that_is_none_is_an_error
    ["ops", "/ops kafka", "//evil.example", "/<b>"].each do |path|
      assert_equal 1, command("--port", "0", "--path", path)
      assert_match(/--path = .*: expected a path such as/, @err.string, path)
    end
  end
end
