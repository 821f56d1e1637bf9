# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"

# The dashboard's pages on a fake cluster.
class WebTest < Minitest::Test
  include WebKit

  PATHS = [["/"], ["/groups"], ["/group", { id: "billing" }], ["/topics"], ["/topic", { name: "orders" }],
           ["/processes"], ["/jobs"], ["/errors"], ["/messages"], ["/dead-letters"], ["/search"], ["/settings"]].freeze

  def test_a_page_is_headed_by_the_first_broker
    orders
    @answers[:cluster] = ["cluster", 1, [[1, "kafka-1", 9092, nil], [2, "kafka-2", 9093, nil]]]
    assert_match(/Pelton kafka-1:9092 /, get("/").text)
  end

  def test_every_page_has_a_title_one_heading_and_no_inline_script_or_style
    orders
    PATHS.each do |path, query|
      answer = get(path, query || {})
      assert_equal [200, []], [answer.status, @reported], path
      assert_equal 1, answer.body.scan("<h1>").size, path
      assert_match(%r{<title>\w.* · Pelton</title>}, answer.body)
      refute_match(/\sstyle=|<style|\son\w+=|<script(?! src=)/, answer.body, path)
      assert_match(/default-src 'none'/, answer.headers["content-security-policy"])
      assert_equal "nosniff", answer.headers["x-content-type-options"]
    end
  end

  def test_overview_adds_up_lags
    orders
    text = get("/").text
    assert_match(/Lag 10 messages/, text)
    assert_match(/Members 1 in 1 group\b/, text)
    assert_match(/attention \s*All partitions have a leader, .*not known: there are no reports of processes/, text)
  end

  def test_the_longest_wait_is_remembered
    orders
    @groups.times[["orders", 0]] = { ((Time.now.to_f - 7200) * 1000).to_i => 50 }
    wait = -> { @web.history.series(:wait).last }
    @web.history.latest
    assert_in_delta 7200, before = wait.call, 400
    @web.history.look
    assert_operator wait.call, :>, before
    @groups.commits["billing"][["orders", 0]] = [60, ""]
    @web.history.look
    assert_equal 0, wait.call
  end

  def test_overview_names_a_partition_without_an_owner
    orders
    @groups.members["billing"].first[4] = [["orders", 1]]
    assert_match(%r{billing: orders/0 has no owner}, get("/").text)
  end

  def test_overview_names_a_group_whose_members_are_gone
    orders
    @groups.members.clear
    assert_match(/billing has no members and 10 messages wait/, get("/").text)
  end

  # On a phone, a row is a card, and a number without its head says nothing.
  def test_each_cell_of_a_table_says_of_which_column_it_is
    orders
    row = get("/groups").body[%r{<tbody>.*?</tr>}m]
    assert_equal ["Group", "State", "Members", "Lag", "Waits", "Done/s", "Caught up in", "Lag, trend"],
                 row.scan(/<(?:td|th) ?[^>]*data-label="([^"]*)"/).flatten
    odd = "<table><thead><tr><th scope=\"col\">A</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"
    assert_match(/cells and heads differ/, assert_raises(ArgumentError) { Pelton::Web::Views.with_labels(odd) }.message)
  end

  def test_an_empty_cluster_says_what_to_do
    assert_match(/No consumer group yet\. Start one with pelton server/, get("/groups").text.gsub(/\s+/, " "))
    assert_match(/This cluster has no topics/, get("/topics").text)
  end

  # A page with hundreds of long errors had no end.
  def test_a_process_lists_its_last_twenty_errors_and_links_to_all_of_them
    error = { at: Pelton::Clock.wall - 50, source: "consumer.consume", class: "KeyError" }
    errors = Array.new(25) { |number| { **error, at: error[:at] - number, message: "no #{number}." } }
    reported(report(errors: errors), report(pid: 2, errors: [{ **error, message: "another one" }]))
    page = get("/process", { id: "web:1:1" })
    assert_match(/ no 0\. .* no 19\. .*All 25 errors of this process/m, page.text)
    refute_includes page.text, "no 20."
    assert_includes page.body, 'href="/errors?process=web%3A1%3A1"'
    rest = get("/errors", { process: "web:1:1" })
    assert_match(/Timeline in web:1 .*All errors .*no 24\./m, rest.text)
    refute_includes rest.text[/Timeline.*/m], "another one"
  end

  # It said that nothing waits, though a new group failed at its first message.
  def test_the_lag_of_a_group_says_how_many_partitions_it_lacks
    orders
    refute_includes get("/group", { id: "billing" }).text, "without a commit"
    @groups.commits["billing"].delete(["orders", 0])
    @web.history.look
    assert_match(/Lag 0 messages 1 partition without a commit/, get("/group", { id: "billing" }).text)
  end

  def test_group_shows_its_partitions_and_what_changed
    orders
    @web.history.latest
    @groups.members["billing"] << ["m-2", "billing-2", nil, "/10.0.0.2", []]
    @groups.commits["billing"][["orders", 0]] = [60, ""]
    @web.history.look
    text = get("/group", { id: "billing" }).text
    assert_match(%r{orders/0 \s*billing \s*60 \s*60 \s*0 }, text)
    assert_match(/billing-2 on 10\.0\.0\.2 joined/, text)
    assert_match(/10\.0\.0\.2/, text)
  end

  def test_a_message_that_was_there_before_the_dashboard_waits_since_it_came
    orders
    @groups.times[["orders", 0]] = { ((Time.now.to_f - 7200) * 1000).to_i => 50 }
    assert_match(%r{orders/0 .* 50 60 10 (1 h 5\d min|2 h) }, get("/group", { id: "billing" }).text)
  end

  def test_a_group_with_many_partitions_shows_those_with_the_largest_lag
    @answers[:names] = ["orders"]
    300.times { |number| @groups.logs[["orders", number]] = 0...1000 }
    @groups.commits["billing"] = (0...300).to_h { |number| [["orders", number], [1000 - number, ""]] }
    text = get("/group", { id: "billing" }).text
    assert_equal (100..299).map(&:to_s).reverse, text.scan(%r{orders/(\d+)}).flatten
    assert_match(/… and 100 more/, text)
  end

  def test_long_lists_go_on_on_further_pages
    @answers[:names] = (1..450).map { |number| format("topic-%03d", number) }
    @answers[:names].each { |name| @groups.logs[[name, 0]] = 0...1 }
    shown = ->(page) { get("/topics", { page: page }) }
    names = ->(page) { shown.call(page).text.scan(/topic-\d+/).uniq }
    assert_equal @answers[:names], %w[1 2 3].flat_map(&names)
    assert_equal names.call("1"), get("/topics").text.scan(/topic-\d+/).uniq
    assert_match(/Previous 201 to 400 of 450 Next/, shown.call("2").text)
    assert_match(%r{href="/topics\?page=1">Previous</a> .* <a href="/topics\?page=3">Next</a>}, shown.call("2").body)
    assert_match(/401 to 450 of 450(?! *Next)/, shown.call("99").text)
    ["0", "-5", "x", ""].each { |page| assert_equal names.call("1"), names.call(page), page }
  end

  def test_a_group_behind_an_open_transaction_says_so
    orders
    @answers[:offsets] = lambda do |(places, committed)|
      places.map { |topic, number, _| [topic, number, committed ? 50 : 60, -1, nil] }
    end
    assert_match(/behind an open transaction/, get("/group", { id: "billing" }).text)
  end

  def test_topic_shows_offsets_and_settings
    orders
    text = get("/topic", { name: "orders" }).text
    assert_match(/Offsets 80/, text)
    assert_match(/retention\.ms \s*5 \s*dynamic topic/, text)
    assert_match(/The app does not declare this topic/, text)
  end

  def test_topic_says_how_long_messages_are_kept
    orders
    kept = lambda do |**config|
      rows = config.map { |name, value| [name.to_s.tr("_", "."), value, "DEFAULT_CONFIG", false, false] }
      @answers[:config] = [["orders", nil, rows]]
      get("/topic", { name: "orders" }).text[/Kept (.*) \n/, 1]
    end
    assert_equal "7 d", kept.call(retention_ms: "604800000", cleanup_policy: "delete")
    assert_equal "by key", kept.call(retention_ms: "604800000", cleanup_policy: "compact")
    assert_equal "7 d, by key", kept.call(retention_ms: "604800000", cleanup_policy: "compact,delete")
    assert_equal ["forever", "–"], [kept.call(retention_ms: "-1", cleanup_policy: "delete"), kept.call]
  end

  def test_odd_paths_are_not_found_and_lead_to_no_other_site
    ["//example.com/x", "/assets/\0", "/assets/../web.rb", "/\0", "/groups\xFF"].each do |path|
      answer = get(path)
      assert_equal 404, answer.status, path.inspect
      refute_match(%r{(?:href|src|action)="//}, answer.body)
    end
    assert_empty @reported
  end

  def test_an_unknown_page_group_or_topic_is_404
    orders
    answers = [get("/nothing"), get("/group", { id: "<b>" }), get("/topic", { name: "x" }), get("/assets/../web.rb")]
    assert_equal [404] * 4, answers.map(&:status)
    assert_includes answers[1].body, "There is no group &lt;b&gt;."
  end

  def test_names_are_escaped_everywhere
    evil = "\"><script>alert(1)</script>"
    @answers[:names] = ["orders"]
    @groups.logs[["orders", 0]] = 0...9
    @groups.commits[evil] = { ["orders", 0] => [5, ""] }
    @groups.members[evil] = [[evil, evil, nil, "/#{evil}", [["orders", 0]]]]
    [["/"], ["/groups"], ["/group", { id: evil }]].each do |path, query|
      body = get(path, query || {}).body
      refute_includes body, "<script>alert", path
      assert_includes body, "&lt;script&gt;alert(1)", path
    end
  end

  def test_links_keep_the_path_of_the_mount
    orders
    body = get("/", SCRIPT_NAME: "/kafka").body
    assert_includes body, 'href="/kafka/group?id=billing"'
    assert_includes body, 'href="/kafka/assets/style.css"'
  end

  def test_a_page_without_kafka_says_why_and_later_shows_the_last_answer
    @answers[:names] = Pelton::KafkaError.new(-195, :_TRANSPORT, "connection refused")
    answers = @answers
    @native.define_singleton_method(:topics) { |_| Array.try_convert(answers[:names]) || raise(answers[:names]) }
    answer = get("/")
    assert_equal 200, answer.status
    assert_match(/Kafka did not answer: .*connection refused/, answer.text)
    assert_match(/The cluster is not known yet/, answer.text)
    orders
    @answers[:names] = ["orders"]
    @web.history.look
    @answers[:names] = Pelton::KafkaError.new(-195, :_TRANSPORT, "connection refused")
    @web.history.look
    text = get("/").text
    assert_match(/Kafka did not answer/, text)
    assert_match(/Lag 10 messages/, text)
  end

  # For up to 45 s after a broker froze, pages showed old numbers and did not say so.
  def test_a_page_says_that_a_look_at_the_cluster_takes_long
    orders
    refute_match(/takes long/, get("/").text)
    asked = []
    @answers[:config] = ->(*) { (asked << :config) && raise("asked") }
    @web.history.stub(:looking_for, 6.2) do
      assert_match(/Kafka takes long to answer: 6 s so far\. The page shows .*Lag 10 messages/m, get("/").text)
      assert_match(/Not known while Kafka does not answer/, get("/topic", { name: "orders" }).text)
    end
    assert_empty asked
    @web.history.stub(:looking_for, 4.9) { refute_match(/takes long/, get("/").text) }
  end

  def test_a_page_that_fails_is_500_and_an_event
    orders
    @web.history.define_singleton_method(:series) { |*| raise ArgumentError, "secret" }
    answer = get("/")
    assert_equal 500, answer.status
    refute_includes answer.body, "secret"
    assert_equal ["secret"], @reported.map(&:message)
  end

  def test_head_has_no_body_and_other_methods_are_refused
    orders
    assert_equal [200, ""], get("/", verb: "HEAD").to_a.values_at(0, 2)
    page = get("/assets/live.js")
    assert_equal page.body.bytesize.to_s, get("/assets/live.js", verb: "HEAD").headers["content-length"]
    assert_equal 405, get("/", verb: "DELETE").status
  end

  def test_actions_are_off_unless_they_are_switched_on
    answer = get("/actions/delete", verb: "POST")
    assert_equal 403, answer.status
    assert_match(/Actions are switched off/, answer.body)
    refute_match(/<form[^>]*post/, get("/dead-letters").body)
  end

  TOKEN = "ab" * 16

  def post(path, fields, **env)
    @acting ||= Pelton::Web.new(@app, actions: true)
    body = StringIO.new(URI.encode_www_form(fields))
    get(path, web: @acting, verb: "POST", "rack.input": body, HTTP_COOKIE: "a=b; pelton_token=#{TOKEN}", **env)
  end

  def test_a_form_of_another_site_is_refused
    [[{}, {}], [{ token: "cd" * 16 }, {}], [{ token: TOKEN }, { HTTP_COOKIE: nil }],
     [{ token: "" }, { HTTP_COOKIE: "pelton_token=" }], [{ token: TOKEN }, { HTTP_ORIGIN: "http://evil.example" }],
     [{ token: TOKEN }, { HTTP_ORIGIN: "null" }], [{ token: TOKEN }, { HTTP_SEC_FETCH_SITE: "cross-site" }],
     [{ token: TOKEN }, { HTTP_SEC_FETCH_SITE: "same-site" }]].each do |fields, env|
      answer = post("/actions/nothing", fields, **env)
      assert_equal 403, answer.status, [fields, env]
      assert_match(/does not come from the dashboard/, answer.body)
    end
    own = { HTTP_ORIGIN: "http://localhost:9280", HTTP_SEC_FETCH_SITE: "same-origin", "rack.url_scheme": "http" }
    assert_equal 404, post("/actions/nothing", { token: TOKEN }, **own).status
    behind_tls = { **own, HTTP_HOST: "localhost", HTTP_ORIGIN: "https://localhost", HTTP_X_FORWARDED_PROTO: "https" }
    assert_equal 404, post("/actions/nothing", { token: TOKEN }, **behind_tls).status
    forwarded = { HTTP_HOST: "127.0.0.1:9280", HTTP_X_FORWARDED_HOST: "ops.example:8443, inner",
                  HTTP_ORIGIN: "https://ops.example:8443" }
    assert_equal 404, post("/actions/nothing", { token: TOKEN }, **forwarded).status
    browser_says = { **own, HTTP_ORIGIN: "https://ops.example:8443" } # its proxy names no host
    assert_equal 404, post("/actions/nothing", { token: TOKEN }, **browser_says).status
    cookies = { HTTP_COOKIE: "a=b;;c; pelton_token=#{TOKEN}; d=e=f" }
    assert_equal 404, post("/actions/nothing", { token: TOKEN }, **own, **cookies).status
  end

  # With Rack 3, each action of a dashboard in a Rails app was refused: Rails had read the form.
  def test_a_form_that_the_app_s_middleware_has_read_is_known
    text = URI.encode_www_form(token: TOKEN, letter: ["0/1"])
    read = { "rack.input": StringIO.new(text).tap(&:read), "rack.request.form_vars": text }
    assert_equal 404, post("/actions/nothing", {}, **read).status
    assert_equal 403, post("/actions/nothing", {}, **read, "rack.request.form_vars": nil).status
  end

  def test_an_action_that_fails_says_why_and_returns_to_its_page
    @answers[:names] = []
    back = { token: TOKEN, topic: "orders", partition: 0, offset: 3, back: "//evil.example/" }
    answer = post("/actions/republish", back, SCRIPT_NAME: "/kafka")
    assert_equal [303, "/kafka/#outcome"], [answer.status, answer.headers["location"]]
    eventually(20, "the end of the action") { !@acting.actions.running? }
    assert @acting.actions.list.first.failed
    @acting.close
  end

  def test_an_unknown_action_or_a_missing_topic_changes_nothing
    assert_equal 404, post("/actions/drop", { token: TOKEN }).status
    assert_equal 400, post("/actions/delete", { token: TOKEN }).status
    assert_empty @acting.actions.list
  end

  def test_messages_say_what_is_wrong_with_their_fields
    orders
    { where: 'where("total") > 1', offset: "x", since: "yesterday", partition: "-1" }.each do |name, value|
      text = get("/messages", { topic: "orders", name => value }).text
      assert_match(/#{name}.* = /, text, name)
    end
    assert_match(/Choose a topic/, get("/messages").text)
    assert_equal [404, 404], [get("/message").status, get("/download").status]
  end

  def test_jobs_without_a_schedule_say_what_to_do
    text = get("/jobs").text
    assert_match(/The app has no schedule\. Set config\.schedule_topic = "pelton\.schedule"/, text)
    refute_match(/Recurring/, text)
    answer = get("/job", { id: "<b>" })
    assert_equal 404, answer.status
    assert_match(/schedule_topic.* is not set/, answer.text)
  end

  def test_search_finds_topics_and_groups_by_a_part_of_their_name
    orders
    @groups.commits["Orders-billing"] = { ["orders", 0] => [50, ""] }
    text = get("/search", { text: "ORD" }).text
    assert_match(/Topics \s*orders \s*Groups \s*Orders-billing/, text)
    assert_match(/No topic and no group has this in its name/, get("/search", { text: "x" }).text)
    assert_match(/Finds topics and groups/, get("/search").text)
  end

  def test_search_says_what_is_wrong_with_its_fields
    orders
    { in: "x", since: "yesterday", topics: "orders, nothing" }.each do |name, value|
      answer = get("/search", { text: "<b>", in: "keys", name => value })
      assert_equal 400, answer.status, name
      assert_match(/#{name}.* = /, answer.text)
      refute_includes answer.body, "<b>"
    end
    answer = get("/search", { text: "x" * 1001, in: "payloads" })
    assert_equal 400, answer.status
    assert_match(/text.* has more than 1000 bytes/, answer.text)
  end

  def test_search_shows_the_text_around_a_match
    orders
    page = Pelton::Web::Pages::Search.new(@web, Pelton::Web::Request.new({ "QUERY_STRING" => "text=%3Cb%3E&in=keys",
                                                                           "REQUEST_METHOD" => "GET" }))
    excerpt = ->(bytes) { page.send(:excerpt, bytes) }
    assert_equal "a<mark>&lt;b&gt;</mark>c", excerpt.call("a<b>c".b)
    assert_equal "…#{"é" * 40}<mark>&lt;b&gt;</mark>#{"z" * 80}…", excerpt.call("#{"é" * 90}<b>#{"z" * 81}".b)
    assert_equal "\u{FFFD}<mark>&lt;b&gt;</mark>", excerpt.call("\xFF<b>".b)
    assert_equal ["none", "x", "#{"y" * 160}…"], [nil, "x", "y" * 170].map { |bytes| excerpt.call(bytes) }
  end

  def test_other_machines_are_refused_without_a_password
    [{ REMOTE_ADDR: "10.0.0.7" }, { HTTP_X_FORWARDED_FOR: "10.0.0.7" }, { HTTP_HOST: "evil.example" },
     { REMOTE_ADDR: nil }].each { |env| assert_equal 403, get("/assets/style.css", **env).status, env }
    assert_equal 200, get("/assets/style.css", REMOTE_ADDR: "::1", HTTP_HOST: "[::1]:9280").status
    open = Pelton::Web.new(@app, allow_remote: true)
    assert_equal 200, get("/assets/style.css", web: open, REMOTE_ADDR: "10.0.0.7", HTTP_HOST: "x").status
  end

  def test_a_password_is_asked_for
    web = Pelton::Web.new(@app, user: "ops", password: "s3:cret")
    ask = ->(text) { get("/assets/style.css", web: web, REMOTE_ADDR: "10.0.0.7", HTTP_AUTHORIZATION: text) }
    right = ["ops:s3:cret"].pack("m0")
    given = ["Basic #{right}", "Basic x", "Bearer #{right}", ""]
    assert_equal([200, 401, 401, 401], given.map { |text| ask.call(text).status })
    assert_match(/\ABasic/, ask.call("").headers["www-authenticate"])
    error = assert_raises(Pelton::ConfigError) { Pelton::Web.new(@app, user: "ops") }
    assert_match(/give both/, error.message)
  end

  def test_close_ends_the_thread
    get("/")
    assert_includes Pelton::Threads.list.map(&:name), "pelton.web.history"
    @web.close
    refute_includes Pelton::Threads.list.map(&:name), "pelton.web.history"
  end
end
