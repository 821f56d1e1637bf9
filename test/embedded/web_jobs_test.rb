# frozen_string_literal: true

require "test_helper"
require "stringio"
require "uri"
require "support/embedded_app"

# The dashboard's pages about scheduled messages, and their actions. (The real broker's twin:
# test/integration/web_letters.rb.)
class EmbeddedWebJobsTest < Minitest::Test
  include EmbeddedApp

  TOKEN = "ab" * 16
  LOCAL = { "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost", "SCRIPT_NAME" => "" }.freeze

  def setup
    super
    @mails = topic
    @schedule = topic(2)
    @app = app(schedule_topic: @schedule, report_topic: topic)
    @web = Pelton::Web.new(@app, actions: true)
    @web.history.define_singleton_method(:latest) { [nil, nil] } # the mock cluster describes no groups
  end

  def teardown
    @web.close
    super
  end

  def later(id, seconds, **more)
    @app.producer.produce_later(topic: @mails, payload: "{}", id: id, in: seconds, **more)
  end

  def ask(verb, path, fields)
    form = URI.encode_www_form(fields)
    request = { "REQUEST_METHOD" => verb, "PATH_INFO" => path, "QUERY_STRING" => verb == "GET" ? form : "",
                "rack.input" => StringIO.new(form), "HTTP_COOKIE" => "pelton_token=#{TOKEN}" }
    status, headers, body = @web.call(LOCAL.merge(request))
    [status, body.join.gsub(/<[^>]*>/, " ").gsub(/\s+/, " "), headers, body.join]
  end

  def get(path, **fields) = ask("GET", path, fields)

  # What the action said at its end.
  def act(path, id)
    status, _, headers, = ask("POST", path, { token: TOKEN, id: id, back: "/jobs" })
    assert_equal [303, "/jobs#outcome"], [status, headers["location"]]
    eventually(30, "the end of the action") { !@web.actions.running? }
    @web.actions.list.first.result
  end

  def test_jobs_lists_what_is_due_next
    later("b", 7200, key: "k<7>")
    later("a", 1800)
    later("<evil>", 86_400 * 3)
    status, text, _, page = get("/jobs")
    assert_equal 200, status
    assert_match(/3 messages: #{@mails} 3\. .* in \d+ min \d+ s \S+ \S+ UTC a #{@mails} none 2 B in 1 h \d+ min .* b /,
                 text)
    assert_match(/&lt;evil&gt;/, text)
    assert_includes page, "k&lt;7&gt;"
    assert_match(/Recurring None\. Routes declare one/, text)
  end

  def test_a_schedule_topic_with_more_records_than_a_page_reads_is_not_read
    later("a", 3600)
    first = { 0 => 10, 1 => 5 }
    last = { 0 => 150_010, 1 => 150_006 }
    @app.admin.define_singleton_method(:offsets) do |positions, **|
      positions.to_h { |(name, number), which| [[name, number], (which == :end ? last : first)[number]] }
    end
    assert_match(/#{@schedule} has 300,001 records, and a page reads at most 300,000\. Run pelton schedule list\./,
                 get("/jobs")[1])
    last[1] -= 1
    text = get("/jobs")[1]
    refute_match(/ records/, text)
    assert_match(/ UTC a #{@mails} none 2 B /, text)
  end

  def test_a_job_is_shown_sent_and_canceled
    later("a", 3600, key: "7", headers: { "x" => "y" })
    later("b", 3600)
    status, text, = get("/job", id: "a")
    assert_equal 200, status
    assert_match(/Topic #{@mails} Due \S+ \S+ UTC Key 7 .*Send now .*Cancel .*Payload \{\} Headers x y/, text)
    assert_equal "canceled", act("/actions/cancel", "a")
    assert_equal "no message waits under this id", act("/actions/cancel", "a")
    assert_equal "a server sends it now", act("/actions/send", "b")
    assert_operator @app.schedule.find("b").at, :<=, Time.now
    status, text, = get("/job", id: "a")
    assert_equal 404, status
    assert_match(/No message waits under the id a: it was sent or canceled/, text)
    assert_match(/1 message: .* \S+ late /, get("/jobs")[1])
    assert_equal 400, ask("POST", "/actions/cancel", { token: TOKEN }).first
    assert_equal 403, ask("POST", "/actions/cancel", { id: "b" }).first
  end

  def test_recurring_messages_are_shown_but_not_canceled
    entry = Pelton::Schedule::Recurring.new("cleanup", every: 3600, topic: @mails, payload: "{}")
                                       .entry("#{Pelton::Schedule::Recurring.prefix("shop")}cleanup", 0, nil)
    @app.producer.produce_sync(**entry.record(@schedule))
    assert_match(%r{Recurring .*shop/cleanup every 3600 in .* not yet #{@mails} }, get("/jobs")[1])
    _, text, = get("/job", id: entry.id)
    assert_match(/Recurring every 3600/, text)
    assert_match(/Send now .*goes on after that as its route says/, text)
    refute_match(/Cancel/, text)
    assert_match(/one that is sent once/, act("/actions/cancel", entry.id))
  end

  # As Active Job's adapter writes a job that `retry_on` enqueues again.
  def job(name, executions, errors = {})
    JSON.generate(job_class: name, job_id: "1", queue_name: "default", arguments: ["é", { "executions" => 5 }],
                  executions: executions, exception_executions: errors)
  end

  def test_jobs_that_failed_before_are_listed_with_their_attempts_and_errors
    { "new" => job("NewJob", 0), "again" => job("MailJob", 2, { "[KeyError, <b>Late]" => 2 }),
      "other" => "{\"executions\":3}", "broken" => "\xFF\"executions\":3".b }.each do |id, payload|
      @app.producer.produce_later(topic: @mails, payload: payload, id: id, in: 600)
    end
    _, text, _, page = get("/jobs")
    assert_match(/Retried jobs .* MailJob in \d+ min \d+ s 2 KeyError, &lt;b&gt;Late #{@mails} Scheduled/, text)
    assert_match(/4 messages: /, text)
    assert_includes page, '<a href="/job?id=again">MailJob</a>'
  end

  def test_an_empty_schedule_says_what_to_do
    text = get("/jobs")[1]
    assert_match(/No job and no message waits for another attempt/, text)
    assert_match(/No job runs now/, text)
    assert_match(/No message waits for its time\. .*produce_later/, text)
  end
end
