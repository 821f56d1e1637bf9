# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"

# Commands to server processes from the dashboard. (To real ones: test/integration/web_browser.rb.)
class WebCommandsTest < Minitest::Test
  include WebKit

  def now = Pelton::Clock.wall

  TOKEN = "ab" * 16

  # The dashboard with actions, and the same reports.
  def acting
    @acting ||= Pelton::Web.new(@app, actions: true).tap do |web|
      web.instance_variable_set(:@reports, @web.reports)
    end
  end

  def order(action, id = "web:1:1", token: TOKEN, **more)
    body = StringIO.new(URI.encode_www_form({ id: id, token: token, back: "/process?id=#{id}", **more }))
    get("/actions/#{action}", web: acting, verb: "POST", "rack.input": body, HTTP_COOKIE: "pelton_token=#{TOKEN}")
  end

  def commanded(**change) = reported(report(commands: "pelton.commands", **change))

  # Notes messages, as they would be sent.
  class Producer
    attr_reader :messages

    def initialize = @messages = []
    def produce_many_sync(messages) = @messages.concat(messages)
  end

  def setup
    super
    producer = @producer = Producer.new
    @app.define_singleton_method(:producer) { producer }
  end

  def teardown
    @acting&.close
    super
  end

  # The only command that was sent, as the process would read it.
  def sent
    eventually(20, "a command") { @producer.messages.any? }
    message = @producer.messages.first
    assert_equal ["pelton.commands", 0, "web:1:1", 1],
                 [*message.values_at(:topic, :partition, :key), @producer.messages.size]
    Pelton::Reports::Command.parse(message[:payload])
  end

  def process_page = get("/process", { id: "web:1:1" }, web: acting).text

  def test_a_page_with_a_form_sets_the_cookie_of_its_token_unless_the_browser_has_it
    commanded
    page = get("/process", { id: "web:1:1" }, web: acting)
    token = page.body[/name="token" value="(\h{32})"/, 1]
    assert_equal "pelton_token=#{token}; Path=/; HttpOnly; SameSite=Strict", page.headers["set-cookie"]
    page = get("/process", { id: "web:1:1" }, web: acting, HTTP_COOKIE: "pelton_token=#{TOKEN}")
    assert_equal [nil, true], [page.headers["set-cookie"], page.body.include?(%(name="token" value="#{TOKEN}"))]
    other = get("/process", { id: "web:1:1" }, web: acting, HTTP_COOKIE: "pelton_token=none")
    assert_match(/\Apelton_token=\h{32};/, other.headers["set-cookie"])
  end

  def test_commands_are_offered_only_with_actions_and_to_a_process_that_takes_them
    commanded
    refute_match(/Commands|<form/, get("/process", { id: "web:1:1" }).body)
    assert_match(/Commands .*Quiet .*starts no new job.* Stop .*ends\. \s*Stop/m, process_page)
    refute_match(/Resume/, process_page)
    commanded(state: "quiet", process: 2)
    assert_match(/Commands .*Resume .*Stop .*Its parent then starts a new one/m, process_page)
    refute_match(/Quiet /, process_page)
    commanded(state: "stopping")
    refute_match(/Commands/, process_page)
    reported(report)
    assert_match(/It takes no commands: its config\.command_topic is not set, or/, process_page)
    reported(report(commands: "<b>"))
    assert_match(/It takes commands from <b>, and the dashboard writes to pelton\.commands/, process_page)
  end

  def test_a_command_is_sent_and_its_outcome_shown
    commanded
    answer = order("quiet")
    assert_equal [303, "/process?id=web:1:1#outcome"], [answer.status, answer.headers["location"]]
    assert_equal ["web:1:1", "quiet"], [sent.process, sent.action]
    assert_match(/Quiet web:1: …/, process_page)
    commanded(state: "quieting")
    eventually(20, "the outcome") { !acting.actions.running? }
    assert_match(/Quiet web:1: it is quieting\./, process_page)
  end

  def test_a_command_without_an_answer_is_void
    commanded
    order("stop")
    later = sent.ends + 1
    Pelton::Clock.stub(:wall, later) { eventually(20, "the end") { !acting.actions.running? } }
    assert_equal [true, "no answer within 60 s, so the command is void"],
                 acting.actions.list.first.to_h.values_at(:failed, :result)
  end

  # --- to all of them -----------------------------------------------------------------------------------------------

  def all(action, confirm: "yes") = order(action, nil, all: "yes", confirm: confirm)

  # Three take commands: two run, one is quiet.
  def three
    commanded
    commanded(pid: 2)
    commanded(pid: 3, state: "quiet")
    reported(report(pid: 4), report(pid: 5, commands: "others"),
             report(pid: 6, commands: "pelton.commands", at: now - 1000),
             report(pid: 7, commands: "pelton.commands", state: "stopped"))
  end

  def test_all_processes_are_offered_only_commands_that_reach_one
    three
    refute_match(/All processes|<form/, get("/processes").body)
    text = get("/processes", web: acting).text
    assert_match(/All processes .*Quiet 2 processes .*Resume 1 process .*Stop 3 processes/m, text)
    assert_match(/I want to stop 3 processes\./, text)
  end

  def test_a_command_to_all_processes_waits_for_each
    three
    assert_equal 303, all("quiet").status
    eventually(20, "commands") { @producer.messages.size == 2 }
    assert_equal(%w[web:1:1 web:2:1], @producer.messages.map { |message| message[:key] }.sort)
    commanded(state: "quiet")
    eventually(20, "progress") { get("/processes", web: acting).text.include?("Quiet 2 processes: 1 process so far …") }
    commanded(pid: 2, state: "quieting")
    eventually(20, "the outcome") { !acting.actions.running? }
    assert_match(/Quiet 2 processes: 2 done\./, get("/processes", web: acting).text)
  end

  def test_a_process_that_does_not_answer_is_named
    three
    all("quiet")
    eventually(20, "commands") { @producer.messages.size == 2 }
    commanded(state: "quiet")
    later = Pelton::Reports::Command.parse(@producer.messages.last[:payload]).ends + 1
    Pelton::Clock.stub(:wall, later) { eventually(20, "the end") { !acting.actions.running? } }
    assert_equal [true, "1 done; no answer from web:2 within 60 s, so the command is void"],
                 acting.actions.list.first.to_h.values_at(:failed, :result)
  end

  def test_a_command_to_all_processes_needs_a_checked_box_and_a_process
    three
    assert_match(/confirm: check the box to confirm/, all("stop", confirm: nil).body)
    @web.reports.add(report(pid: 3, commands: "pelton.commands"))
    assert_match(/there is no process to resume/, all("resume").body)
    assert_empty @producer.messages
  end

  def test_commands_that_are_refused
    commanded
    assert_equal [403, 400, 404], [order("stop", token: "x"), order("stop", "nobody"), order("restart")].map(&:status)
    reported(report)
    assert_match(/command_topic = "pelton\.commands": web:1 takes no commands from it/, order("stop").body)
    assert_empty @producer.messages
  end
end
