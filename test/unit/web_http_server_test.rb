# frozen_string_literal: true

require_relative "../test_helper"
require "io/wait"
require "socket"
require "pelton/web/http_server"

# The HTTP server of `pelton web` with a Rack app of its own, at its limits.
class WebHttpServerTest < Minitest::Test
  def setup
    @envs = Thread::Queue.new
    @answer = [200, { "content-type" => "text/plain" }, ["hello"]]
    @app = lambda do |env|
      @envs << env
      @answer.respond_to?(:call) ? @answer.call : @answer
    end
    @bus = Pelton::Notifications.new
    @server = Pelton::Web::HttpServer.new(@app, bind: "127.0.0.1", port: 0, bus: @bus)
  end

  def teardown = @server.close

  def connect = TCPSocket.new("127.0.0.1", @server.port)

  def answer_to(text)
    socket = connect
    socket.write(text)
    socket.close_write
    socket.read
  ensure
    socket&.close
  end

  def test_a_request_becomes_a_rack_environment
    answer = answer_to("POST /a/b?c=d HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nX-One:  two \r\n" \
                       "Content-Length: 3\r\n\r\nxyzabc")
    assert_equal "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nhello",
                 answer
    env = @envs.pop
    assert_equal "xyz", env["rack.input"].read
    assert_equal({ "REQUEST_METHOD" => "POST", "SCRIPT_NAME" => "", "PATH_INFO" => "/a/b", "QUERY_STRING" => "c=d",
                   "HTTP_HOST" => "localhost", "CONTENT_TYPE" => "text/plain", "HTTP_X_ONE" => "two",
                   "CONTENT_LENGTH" => "3", "REMOTE_ADDR" => "127.0.0.1", "SERVER_NAME" => "localhost",
                   "SERVER_PORT" => @server.port.to_s, "SERVER_PROTOCOL" => "HTTP/1.1", "rack.url_scheme" => "http",
                   "rack.errors" => $stderr }, env.except("rack.input"))
  end

  def test_a_base_is_the_script_name_whether_or_not_a_proxy_passes_it_on
    @server.close
    @server = Pelton::Web::HttpServer.new(@app, bind: "127.0.0.1", port: 0, bus: @bus, base: "/ops/kafka")
    { "/ops/kafka/groups" => "/groups", "/groups" => "/groups", "/ops/kafka" => "", "/ops/kafka/" => "/", "/" => "/",
      "/ops/kafkaesque" => "/ops/kafkaesque" }.each do |path, below|
      answer_to("GET #{path} HTTP/1.1\r\n\r\n")
      assert_equal ["/ops/kafka", below], @envs.pop.values_at("SCRIPT_NAME", "PATH_INFO"), path
    end
  end

  def test_lines_may_end_without_a_carriage_return
    answer_to("GET / HTTP/1.0\nHost: a\n\n")
    assert_equal ["/", "", "a"], @envs.pop.values_at("PATH_INFO", "QUERY_STRING", "HTTP_HOST")
  end

  def test_a_form_of_a_mebibyte_is_read_and_a_larger_one_is_refused
    form = "x" * (1 << 20)
    answer_to("POST / HTTP/1.1\r\nContent-Length: #{form.bytesize}\r\n\r\n#{form}")
    assert_equal form, @envs.pop["rack.input"].read
    assert_match(/ 413 Content Too Large\r\n/, answer_to("POST / HTTP/1.1\r\nContent-Length: #{(1 << 20) + 1}\r\n\r\n"))
    assert_empty @envs
  end

  def test_a_refused_request_is_answered_though_the_rest_of_it_still_arrives
    { "Content-Length: 4000000" => 413, "Transfer-Encoding: chunked" => 411,
      "X: #{"x" * 40_000}" => 431 }.each do |row, status|
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{row}\r\n\r\n")
      40.times { socket.write("x" * 100_000) }
      assert_match(%r{\AHTTP/1\.1 #{status} .+\r\ncontent-type: text/plain\r\n\r\n.+\n\z}m, socket.read)
      socket.close
    end
    assert_empty @envs
  end

  def test_a_refused_request_that_does_not_end_is_cut_off
    socket = connect
    socket.write("POST / HTTP/1.1\r\nContent-Length: 1#{"0" * 12}\r\n\r\n")
    assert_raises(Errno::EPIPE, Errno::ECONNRESET) { 10_000.times { socket.write("x" * 100_000) } }
  ensure
    socket&.close
  end

  def test_a_failed_accept_does_not_end_the_server
    failures = [Errno::EMFILE, Errno::ECONNABORTED]
    listening = TCPServer.new("127.0.0.1", 0)
    listening.define_singleton_method(:accept) { (error = failures.shift) ? raise(error) : super() }
    @server.close
    TCPServer.stub(:new, listening) do
      @server = Pelton::Web::HttpServer.new(@app, bind: "127.0.0.1", port: 0, bus: @bus)
    end
    assert_match(/ 200 OK/, answer_to("GET / HTTP/1.1\r\n\r\n"))
    assert_empty failures
  end

  def test_a_head_of_16_kibibytes_is_read_and_a_larger_one_is_refused
    head = ->(size, finish) { "GET / HTTP/1.1\r\nX: ".ljust(size - finish.size, "x") << finish }
    assert_match(/ 200 OK\r\n/, answer_to(head.call(16_384, "\r\n\r\n")))
    assert_match(/ 431 Request Header Fields Too Large\r\n/, answer_to(head.call(16_385, "")))
    assert_equal 1, @envs.size
  end

  def test_a_request_has_10_seconds_to_arrive_and_so_has_its_answer
    asked = Thread::Queue.new
    deadline = ->(seconds) { (asked << seconds) && (Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds) }
    Pelton::Clock.stub(:deadline, deadline) { answer_to("GET / HTTP/1.1\r\n\r\n") }
    assert_equal [10, 10], Array.new(asked.size) { asked.pop }
  end

  def test_a_request_that_does_not_end_is_dropped_at_its_deadline
    written = Thread::Queue.new
    deadline = ->(_) { written.pop || (Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.05) }
    Pelton::Clock.stub(:deadline, deadline) do
      socket = connect
      socket.write("GET / HTTP/1.1\r\n")
      written.close
      assert_equal "", socket.read
      socket.close
    end
    assert_empty @envs
  end

  def test_a_long_answer_arrives_whole
    @answer = [200, {}, ["a" * 3_000_000, "b" * 3_000_000]]
    socket = connect
    socket.write("GET / HTTP/1.1\r\n\r\n")
    @envs.pop
    head, body = socket.read.split("\r\n\r\n", 2)
    assert_includes head, "content-length: 6000000"
    assert_equal ["a" * 3_000_000, "b" * 3_000_000].join, body
  ensure
    socket&.close
  end

  def test_the_17th_connection_waits_for_the_end_of_another
    idle = Array.new(16) { connect }
    seventeenth = connect
    seventeenth.write("GET / HTTP/1.1\r\n\r\n")
    refute seventeenth.wait_readable(0.1)
    idle.shift.close
    assert_match(/ 200 OK/, seventeenth.read)
  ensure
    [*idle, seventeenth].each(&:close)
  end

  # Browsers open connections in advance, and somebody may send requests very slowly. 16 of them took all places.
  def test_connections_that_send_no_request_keep_no_reader_out
    idle = Array.new(40) { connect.tap { |socket| socket.write("GET / HTTP/1.1\r\n") } }
    assert_match(/ 200 OK/, answer_to("GET / HTTP/1.1\r\n\r\n"))
    assert_equal "", idle.first.read # it was cut off
  ensure
    idle.each(&:close)
  end

  def test_a_request_that_is_being_answered_keeps_its_place
    gate = Thread::Queue.new
    @answer = -> { gate.pop && [200, {}, ["late"]] }
    busy = Array.new(16) { connect.tap { |socket| socket.write("GET / HTTP/1.1\r\n\r\n") } }
    16.times { @envs.pop }
    seventeenth = connect
    seventeenth.write("GET / HTTP/1.1\r\n\r\n")
    refute seventeenth.wait_readable(1.5)
    17.times { gate << true }
    [*busy, seventeenth].each { |socket| assert_match(/late\z/, socket.read) }
  ensure
    [*busy, seventeenth].compact.each(&:close)
  end

  # What a real dashboard answers to HEAD has the length of the page.
  def test_the_length_that_the_app_gives_is_kept
    @answer = [200, { "content-length" => "42" }, []]
    assert_match(/\r\ncontent-length: 42\r\n\r\n\z/, answer_to("HEAD / HTTP/1.1\r\n\r\n"))
  end

  def test_an_app_that_raises_is_reported_and_the_next_request_is_answered
    errors = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| errors << [event[:error].message, event[:source]] }
    @answer = -> { raise "no answer" }
    assert_equal "", answer_to("GET / HTTP/1.1\r\n\r\n")
    assert_equal ["no answer", "web"], errors.pop
    @answer = [200, {}, []]
    assert_match(/ 200 OK/, answer_to("GET / HTTP/1.1\r\n\r\n"))
  end

  def test_a_status_without_a_known_reason_has_one
    @answer = [418, {}, []]
    assert_match(%r{\AHTTP/1\.1 418 Status\r\n}, answer_to("GET / HTTP/1.1\r\n\r\n"))
  end

  def test_close_ends_a_request_that_runs
    @answer = -> { Thread::Queue.new.pop }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n\r\n")
    @envs.pop
    port = @server.port
    @server.close
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
    assert_equal "", socket.read
  ensure
    socket&.close
  end
end
