# frozen_string_literal: true

require_relative "../test_helper"
require "net/http"
require "support/forked_child"
require "support/probe"
require "support/server_kit"

# The HTTP endpoint for liveness, on real sockets of this machine. It answers in valid HTTP/1.1.
class LivenessTest < Minitest::Test
  include ForkedChild
  include Probe
  include ServerKit

  def started(**settings)
    app.config.liveness.set(:port, 0)
    app.config.liveness.bind = "127.0.0.1"
    settings.each { |name, value| app.config.liveness.set(name, value) }
    start
  end

  def port = app.server.liveness.port
  def ask(...) = probe(port, ...)
  def open = TCPSocket.open("127.0.0.1", port)
  def connections = app.server.liveness.instance_variable_get(:@open)

  # Makes the server unwell, or well again.
  def ail(*reasons, &failure)
    server = app.server
    server.singleton_class.remove_method(:health_problems) if server.singleton_methods.include?(:health_problems)
    server.define_singleton_method(:health_problems, &(failure || -> { reasons }))
  end

  def test_without_a_port_no_endpoint_starts
    assert_nil start.liveness
    assert_empty(Pelton::Threads.list.map(&:name).grep(/liveness/))
  end

  def test_an_answer_is_http
    started
    answer = ask
    assert_equal 200, answer.status
    assert_equal({ healthy: true, status: "running", reasons: [] }, answer.json)
    assert_equal [answer.body.bytesize.to_s, "close", "application/json", "no-store"],
                 answer.head.values_at("Content-Length", "Connection", "Content-Type", "Cache-Control")
    assert_match(/\A\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\z/, answer.head["Date"])
    head = ask("/live", method: "HEAD")
    assert_equal [200, answer.head["Content-Length"], ""], [head.status, head.head["Content-Length"], head.body]
    Net::HTTP.start("127.0.0.1", port) do |http|
      assert_equal %w[200 200 200], (%w[/live /started /ready?verbose=1].map { |path| http.get(path).code })
    end
  end

  # The answer is larger than any buffer of a socket, and the client reads it slowly.
  def test_metrics_are_sent_whole
    text = "x 1\n" * 5_000_000
    asked = []
    metrics = lambda do |env|
      asked << env.values_at("REQUEST_METHOD", "PATH_INFO", "HTTP_ACCEPT")
      [200, { "content-type" => "text/plain; version=0.0.4" }, [text]]
    end
    started(metrics: metrics)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n")
      eventually(20, "the request") { asked.any? }
      connections.each_value { |connection| connection.ends += 20 * Guard::PATIENCE } # it has 5 s
      assert_equal 200, ask("/live").status # others are answered meanwhile
      answer = Probe.answer_of(socket.read)
      assert_equal [200, text.bytesize], [answer.status, answer.body.bytesize]
      assert_equal "text/plain; version=0.0.4", answer.head["Content-Type"]
    end
    assert_equal [["GET", "/metrics", "text/plain"]], asked
    assert_equal "", ask("/metrics", method: "HEAD").body
  end

  # As those of Rack::Deflater and Rack::ETag, which have no to_a.
  class Body
    attr_reader :closed

    def each
      yield "x 1\n"
      yield "y 2\n"
    end

    def close = @closed = true
  end

  def test_a_body_of_metrics_has_each_and_is_closed
    body = Body.new
    started(metrics: ->(_env) { [200, { "Content-Type" => "text/plain" }, body] })
    assert_equal [200, "x 1\ny 2\n"], [ask("/metrics").status, ask("/metrics").body]
    assert body.closed
  end

  def test_without_metrics_their_path_is_unknown
    started
    answer = ask("/metrics")
    assert_equal 404, answer.status
    refute_includes answer.body, "/metrics,"
  end

  def test_metrics_that_raise
    errors = []
    app.subscribe("error.occurred") { |event| errors << event.payload }
    started(metrics: ->(_env) { raise "no numbers" })
    answer = ask("/metrics")
    assert_equal [500, "the metrics raised RuntimeError"], [answer.status, answer.json[:error]]
    assert_equal [["no numbers", "liveness"]], (errors.map { |error| [error[:error].message, error[:source]] })
    assert_equal 200, ask("/live").status
  end

  def test_invalid_http_requests_get_an_error_status
    started
    assert_equal [404, 404, 405], [ask("/").status, ask("/livez").status, ask("/live", method: "POST").status]
    assert_equal "GET, HEAD", ask("/live", method: "DELETE").head["Allow"]
    ["\r\n\r\n", "hello\r\n\r\n", "GET /live\r\n\r\n", "GET live HTTP/1.1\r\n\r\n", "GET /live HTTP/2\r\n\r\n",
     "GET  /live HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\r\n\r\n", "get /live HTTP/1.1\r\n\r\n",
     "G\xFF /live HTTP/1.1\r\n\r\n"].each do |request|
      assert_equal 400, ask(request).status, request.inspect
    end
    assert_equal 200, ask("GET /live HTTP/1.0\n\n").status
    assert_equal 200, ask("GET /live?\xFF HTTP/1.1\r\nX: \xFF\r\n\r\nand a body").status
  end

  def test_a_request_without_an_end
    started
    assert_equal 400, ask("x" * 9000).status
    socket = open
    socket.write("GET /live HTTP/1.1\r\n")
    socket.close_write
    assert_equal 400, answer_of(socket.read).status
    assert_equal 200, ask.status
  ensure
    socket&.close
  end

  def test_request_sent_byte_by_byte_is_answered
    started
    socket = open
    "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n".each_char { |char| socket.write(char) && socket.flush }
    assert_equal 200, answer_of(socket.read).status
  ensure
    socket&.close
  end

  def test_ill_quiet_and_stopping
    started
    ail("group g hangs")
    answer = ask
    assert_equal [500, { healthy: false, status: "running", reasons: ["group g hangs"] }], [answer.status, answer.json]
    assert_equal [500, 500, 500], (%w[/live /started /ready].map { |path| ask(path).status })
    assert_equal ["group g hangs"], event("app.unhealthy")[:reasons]
    assert_empty Array.new(@events.size) { @events.pop.name }.grep(/unhealthy/), "told once"
    ail
    app.quiet
    event("app.quiet")
    assert_equal [200, 200, 500, "quiet"], [ask.status, ask("/started").status, ask("/ready").status, ask.json[:status]]
    app.resume
    event("app.resumed")
    assert_equal 200, ask("/ready").status
    ail("again")
    assert_equal 500, ask.status
    assert_equal ["again"], event("app.unhealthy")[:reasons]
  end

  def test_endpoint_answers_until_the_last_job_has_ended
    produce(1)
    app.config.liveness.port = 0
    app.subscribe("app.starting") { @log << app.server.liveness }
    server = started
    assert_nil @log.pop, "absent before it runs"
    before = port
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    stopping = Pelton::Threads.start("test") { app.stop }
    eventually { server.status == :stopping }
    assert_equal [200, 500], [ask.status, ask("/ready").status]
    @gate.close
    stopping.join
    assert refused?(before)
  end

  def test_the_body_is_made_when_it_is_asked_for
    started
    early = open
    eventually { connections.size == 1 }
    ail("since then")
    early.write("GET /live HTTP/1.1\r\n\r\n")
    assert_equal ["since then"], answer_of(early.read).json[:reasons]
  ensure
    early&.close
  end

  # More than are let in, each without a word or in the middle of one.
  def test_silent_and_slow_connections_do_not_delay_other_requests
    started
    silent = Array.new(130) { |number| open.tap { |socket| socket.write("GET /li") if number.odd? } }
    asking = Array.new(20) { Pelton::Threads.start("test") { @log << ask.status } }
    assert_equal [200] * 20, Array.new(20) { @log.pop }
    asking.each(&:join)
    assert_operator connections.size, :<=, 100
    assert_empty connections.each_value.map(&:ends).select { |time| time > now + 5 }, "a connection has 5 s"
    connections.each_value { |connection| connection.ends = 0 }
    assert_equal 200, ask.status
    eventually { connections.empty? } # the last look too
    silent.each { |socket| assert_nil(socket.read(1)) }
  ensure
    silent&.each(&:close)
  end

  def test_connections_that_break
    started
    50.times do |number|
      socket = open
      socket.write(["", "GET /live HTTP/1.1\r\n\r\n", "x" * 20_000][number % 3])
      socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) # reset
      socket.close
    rescue Errno::ECONNRESET, Errno::EPIPE
      nil # as it may
    end
    assert_equal 200, ask.status
    eventually { connections.size <= 1 }
    assert_empty named("error.occurred")
  end

  def test_no_descriptor_is_free
    started
    early = open
    eventually { connections.size == 1 }
    failures = 0
    listening = app.server.liveness.instance_variable_get(:@listening)
    listening.define_singleton_method(:accept_nonblock) do |**options|
      (failures += 1) < 3 ? raise(Errno::EMFILE) : super(**options)
    end
    assert_equal [200, 3], [ask.status, failures]
    early.write("GET /live HTTP/1.1\r\n\r\n")
    assert_match(%r{\AHTTP/1.1 200 }, early.read, "one that was let in before is served meanwhile")
  ensure
    early&.close
  end

  def test_failure_to_answer_is_reported
    started
    ail { raise "a bug" }
    assert_raises(NoMethodError, Errno::ECONNRESET) { ask }
    assert_equal ["a bug", "liveness"], [event("error.occurred")[:error].message, @last[:source]]
    assert_empty connections
    ail
    assert_equal 200, ask.status
  end

  def test_killed_thread_leaves_no_connection_waiting
    started
    before = port
    assert_equal 200, ask.status
    Pelton::Threads.list.find { |thread| thread.name == "pelton.liveness" }.kill.join
    assert refused?(before)
    assert app.stop
  end

  def test_a_port_that_is_taken
    other = TCPServer.new("127.0.0.1", 0)
    error = assert_raises(Pelton::ConfigError) { started(port: other.local_address.ip_port) }
    assert_match(/\Aliveness\.port = "127\.0\.0\.1:\d+": cannot listen on this address: .*in use/, error.message)
    assert_equal [:stopped, true], [app.server.status, subscription.closed?]
    taken = other.local_address.ip_port
    other.close
    app.start
    assert_equal [taken, 200], [port, ask.status]
    assert app.stop
    app.start
    assert_equal [taken, 200], [port, ask.status], "and again"
  end

  def test_bad_settings
    { port: [-1, 65_536, "80"], bind: ["", nil], max_poll_gap: [29, nil],
      max_consume_time: [0, -1] }.each do |name, values|
      values.each { |value| assert_raises(Pelton::ConfigError, value.inspect) { app.config.liveness.set(name, value) } }
    end
    error = assert_raises(Pelton::ConfigError) { started(bind: "no.such.host.invalid") }
    assert_includes error.message, "no.such.host.invalid"
    assert_includes assert_raises(Pelton::ConfigError) { Pelton::Config.new.liveness = 80 }.message, "liveness.port"
  end

  # It would keep the port from who comes after its parent.
  def test_a_forked_child_lets_go_of_its_parents_port
    started
    inherited = app.server.liveness
    told = in_child do
      app.start
      held = begin
        inherited.port
      rescue IOError
        "let go"
      end
      answer = ask.status
      app.stop
      [held, answer]
    end
    assert_equal "let go\n200\n", told
    assert_equal 200, ask.status, "the parent's"
  end

  private

  # What happened by now, of this name.
  def named(name) = Array.new(@events.size) { @events.pop }.select { |event| event.name == name }

  def event(name) = @last = super
end
