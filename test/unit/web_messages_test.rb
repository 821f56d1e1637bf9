# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/avro"
require "pelton/registry"
require "support/fakes"
require "support/registry_double"
require "support/web_kit"
require "pelton/web/reading"
require "pelton/web/search"

# The dashboard's pages of messages, and what it publishes once more. A fake reads the messages of the ranges that it is
# asked for. (On a real broker: test/integration/web.rb.)
class WebMessagesTest < Minitest::Test
  include WebKit

  TOKEN = "a" * 32
  START = Time.utc(2026, 1, 2, 3, 4, 5)

  # Stands for Offsets::Scan.
  Scan = Struct.new(:messages, :asked, :ended) do
    def run(ranges, seconds:, bytes:, most:)
      asked << [ranges, seconds, bytes, most]
      messages.each { |message| yield message if ranges[[message.topic, message.partition]]&.cover?(message.offset) }
      ended
    end

    def reached = {}
  end

  def setup
    super
    @topic = "orders"
    @acting = Pelton::Web.new(@app, actions: true)
    @scan = Scan.new([], [])
    # Arguments of each Scan.new.
    scans = @scans = []
    scan = @scan
    Pelton::Offsets::Scan.define_singleton_method(:new) { |*names, **options| (scans << [names, options]) && scan }
  end

  def teardown
    @acting.close
    Pelton::Offsets::Scan.singleton_class.remove_method(:new)
    super
  end

  # Each comes a second after the one before. `first`: the first offset of partition 0.
  def send_all(*rows, first: 0)
    @answers[:names] = [@topic]
    rows.each_with_index do |row, index|
      place = [@topic, row.fetch(:partition, 0)]
      offset = @groups.logs[place]&.end || (place.last.zero? ? first : 0)
      @groups.logs[place] = (@groups.logs[place]&.begin || offset)...(offset + 1)
      time = ((START + index).to_f * 1000).round
      @scan.messages << Fakes::Message.new(*place, offset, row[:payload], key: row[:key], timestamp_ms: time,
                                                                          headers: row.fetch(:headers, {}))
    end
    @groups.logs[[@topic, 1]] ||= 0...0
  end

  alias call get
  def get(path, **query) = call(path, query)

  def post(path, **fields)
    body = StringIO.new(URI.encode_www_form({ token: TOKEN, **fields }))
    call(path, web: @acting, verb: "POST", "rack.input": body, HTTP_COOKIE: "pelton_token=#{TOKEN}")
  end

  # [[partition, offset], …] in the order of the page.
  def places(**query)
    rows = %r{<tr><td data-label="Partition">(\d+)</td><th scope="row" [^>]*><a[^>]*>(\d+)</a>}
    get("/messages", topic: @topic, **query).body.scan(rows).map { |row| row.map(&:to_i) }
  end

  def test_the_newest_messages_of_all_partitions_or_of_one_come_first
    send_all({ payload: "a" }, { payload: "b", partition: 1 }, { payload: "c" }, { payload: "d" })
    assert_equal [[0, 2], [0, 1], [1, 0], [0, 0]], places
    assert_equal [[0, 2], [0, 1], [0, 0]], places(partition: 0)
    assert_equal [[1, 0]], places(partition: 1)
    assert_match(/4 messages, newest first\. 4 offsets were looked at\. /, get("/messages", topic: @topic).text)
  end

  def test_a_page_has_fifty_messages_and_from_an_offset_a_link_to_the_next_ones
    send_all(*Array.new(53) { |number| { payload: number.to_s } })
    assert_equal (3..52).to_a.reverse, places(partition: 0).map(&:last)
    assert_equal (2..51).to_a, places(offset: 2).map(&:last)
    assert_includes get("/messages", topic: @topic, offset: 2).body, "offset=52"
    assert_equal (3..52).to_a, places(offset: 3).map(&:last)
    assert_equal [50, 51, 52], places(offset: 50).map(&:last)
    page = get("/messages", topic: @topic, offset: 50)
    assert_match(/3 messages, oldest first\. 3 offsets were looked at\. /, page.text)
    refute_includes page.text, "Next messages"
    assert_match(/0 messages, oldest first\..*No message matches/m, get("/messages", topic: @topic, offset: 99).text)
  end

  def older(**query)
    path = get("/messages", topic: @topic, **query).body[%r{<a href="/messages\?([^"]+)">Older messages}, 1]
    path && URI.decode_www_form(path.gsub("&amp;", "&")).to_h.transform_keys(&:to_sym)
  end

  # One could only go on to newer ones.
  def test_older_messages_follow_the_newest_ones_also_while_others_arrive
    send_all(*Array.new(130) { |number| { payload: number.to_s, partition: number % 3 / 2 } }) # 87 and 43
    first = places
    query = older
    assert_equal({ topic: "orders", before: "0:62,1:18" }, query)
    send_all(*Array.new(9) { |number| { payload: "new", partition: number % 2 } })
    pages = [first]
    while query
      pages << places(**query)
      query = older(**query)
    end
    assert_equal [50, 50, 30], pages.map(&:size)
    assert_equal (0...87).map { |offset| [0, offset] } + (0...43).map { |offset| [1, offset] }, pages.flatten(1).sort
    assert_match(/"1x": expected partitions with offsets/, get("/messages", topic: @topic, before: "1x").text)
  end

  def test_older_messages_of_a_partition_and_of_a_filter_that_found_few
    send_all(*Array.new(6000) { { payload: "a" } })
    assert_equal({ topic: "orders", partition: "0", before: "0:5950" }, older(partition: 0))
    @scan.messages.select! { |message| [100, 5500].include?(message.offset) }
    query = older(key: "x")
    assert_equal({ topic: "orders", before: "0:1000,1:0", key: "x" }, query)
    assert_equal [[[0, 5500]], [[0, 100]], nil], [places(key: "x"), places(**query), older(**query)]
    @scan.messages.clear
    assert_match(/None of them matches\. To look at others, go on to older messages, or/,
                 get("/messages", topic: @topic, key: "x").text)
    @scan.ended = :time
    assert_nil older, "what was not read in time would be left out"
  end

  # A registry may repeat the request, and send to other places.
  def test_page_of_a_message_whose_schema_is_refused_says_why_and_shows_no_login
    double = RegistryDouble.new
    hush = "hush-1/2"
    { :echo => "HTTP 400", { status: 302, headers: { "Location" => "http://x/?#{hush}" } } => "HTTP 302",
      { status: 403, body: JSON.generate(error_code: 3, message: "<b>#{hush}</b>") } => "HTTP 403, 3",
      { status: 404, body: "<html>" } => "HTTP 404", { status: 500, body: hush * 10_000 } => "HTTP 500" }
      .each do |fault, status|
      double.heal
      double.fail(fault, times: 9)
      body = page_of_avro(Pelton::Registry.new(double.url.sub("//", "//me:hush-1%2F2@"), retries: 0))
      assert_includes body, "schema registry, schema 7: "
      assert_includes body, "(#{status}), from #{double.url}"
      refute_match(/hush|#{["me:#{hush}"].pack("m0")}|<b>/, body)
    end
  ensure
    double&.close
  end

  def page_of_avro(registry)
    topic = @topic = "orders-#{registry.object_id}"
    @app.reset!
    @app.config.group_id = "g"
    consumer = Class.new(Pelton::Consumer) { define_method(:consume) { nil } }
    @app.routes { topic(topic, to: consumer) { decode :avro, registry: registry } }
    send_all({ payload: "\0\0\0\0\a\x02".b })
    decoder = Pelton::Avro::Decoder.new(registry: registry)
    @scan.messages.last.define_singleton_method(:payload) { decoder.decode(raw_payload) }
    get("/message", topic: topic, partition: 0, offset: 0).body
  end

  def test_messages_of_a_key_and_of_a_condition_are_read_from_further_back
    send_all(*Array.new(6000) { { payload: "a" } })
    key = [:is, [:key], :in, ["x"]]
    total = [:all, [:is, [:field, "total"], :gt, 10]]
    wanted = { {} => [[], 50], { key: "x" } => [[[:all, key]], 5000],
               { where: 'where("total").gt(10)' } => [[[:all, total]], 5000],
               { where: 'where("total").gt(10)', key: "x" } => [[[:all, total, key]], 5000] }
    wanted.each do |query, (condition, count)|
      get("/messages", topic: @topic, partition: 0, **query)
      assert_equal condition, [@scans.last.last[:where]].compact
      assert_equal [{ [@topic, 0] => ((6000 - count)...6000) }, 5, 64 << 20], @scan.asked.last.first(3)
    end
  end

  # Of a compacted topic, and after transactions, 50 offsets may have no message at all.
  def test_the_newest_messages_are_looked_for_further_back
    send_all(*Array.new(3000) { { payload: "a" } })
    @scan.messages.reject! { |message| message.offset > 40 }
    assert_equal 41, places.size
    assert_equal [2950, 2500, 0], (@scan.asked.map { |ranges,| ranges[[@topic, 0]].begin })
  end

  def test_from_an_offset_in_a_gap_the_messages_behind_it_come
    send_all(*Array.new(300) { { payload: "a" } })
    @scan.messages.reject! { |message| message.offset.between?(10, 200) }
    assert_equal (201..250).to_a, places(offset: 10).map(&:last)
    page = get("/messages", topic: @topic, offset: 10)
    assert_match(/50 messages, oldest first\. 241 offsets were looked at\. /, page.text)
    assert_includes page.body, "offset=251"
  end

  def test_a_filter_that_finds_nothing_leads_on_to_the_next_offsets
    send_all(*Array.new(6000) { { payload: "a" } })
    @scan.messages.clear
    page = get("/messages", topic: @topic, offset: 100, key: "x")
    assert_match(/0 messages, .* 5,000 of 5,900 offsets were looked at\..*None of them matches/m, page.text)
    assert_includes page.body, "offset=5100&amp;key=x"
    refute_includes get("/messages", topic: @topic, offset: 5100, key: "x").text, "Next messages"
  end

  def test_a_long_key_and_long_headers_are_cut_in_the_list
    send_all({ key: "k" * 10_000, payload: "a", headers: { "h" * 300 => "v" * 10_000 } })
    body = get("/messages", topic: @topic).body
    assert_includes body, "<code>#{"k" * 200}…</code>"
    assert_includes body, "<code>#{"v" * 200}…</code>"
    assert_operator body.bytesize, :<, 8_000
    assert_includes get("/message", topic: @topic, partition: 0, offset: 0).body, "k" * 10_000
  end

  def test_page_of_a_dead_letter_names_the_group_and_the_error_if_it_is_known
    names = %w[topic partition offset consumer_group attempts]
    source = names.zip(%w[orders 0 3 billing 4]).to_h { |name, value| ["source_#{name}", value] }
    ours = { "pelton.topic" => "orders", "pelton.partition" => "0", "pelton.offset" => "3", "pelton.attempts" => "1",
             "pelton.group" => "audit", "pelton.error" => "IOError", "pelton.error_message" => "no disk" }
    send_all({ payload: "1", headers: source }, { payload: "2", headers: ours })
    facts = [0, 1].map do |offset|
      get("/message", topic: @topic, partition: 0, offset: offset).body[%r{<dt>Failed in</dt><dd>(.*)</dd>}, 1]
    end
    assert_equal ["billing", "audit: IOError no disk"], facts
  end

  # It looked like an empty payload, because nothing shows a byte 0.
  def test_bytes_with_a_zero_are_shown_as_hexadecimal_digits
    send_all({ key: "a\0", payload: "\0\0\0\0\a\u0002" })
    page = get("/messages", topic: @topic)
    assert_includes page.body, "<code>6100</code>"
    assert_includes page.body, "<code>000000000702</code>"
  end

  # With a schema registry that took connections and did not answer, the page came after 31 s.
  def test_payloads_that_are_not_decoded_in_time_are_shown_as_text
    send_all({ payload: "[1]" }, { payload: "[ 2 ]" })
    answer = Thread::Queue.new
    @scan.messages.first.define_singleton_method(:payload) { answer.pop }
    body = get("/messages", topic: @topic).body
    assert_match(%r{<code>\[2\]</code></summary>.*<code>\[1\]</code><span class="badge bad">not decoded</span>}m, body)
    assert_includes body, '<p class="notice bad">It was not decoded within 5 s.</p>'
    assert_equal 0, answer.num_waiting
  end

  # A key with the text "none" looked like no key.
  def test_a_key_that_is_missing_or_empty_is_not_code
    send_all({ payload: "a" }, { payload: "a", key: "" }, { payload: "a", key: "none" })
    body = get("/messages", topic: @topic).body
    cells = body.scan(%r{<td [^>]*class="wrap"><(?:code|small)>(?:none|empty)</\w+></td>})
    assert_equal %w[<code>none</code> <small>empty</small> <small>none</small>],
                 (cells.map { |cell| cell[%r{<(?:code|small)>.*</(?:code|small)>}] })
  end

  def test_messages_since_a_time_come_oldest_first_from_the_first_of_each_partition
    send_all({ payload: "a" }, { payload: "b", partition: 1 }, { payload: "c" }, { payload: "d" })
    asked = nil
    before = @answers[:offsets]
    @answers[:offsets] = lambda do |(rows, committed)|
      times, others = rows.partition { |*, position| position.is_a?(Integer) && position >= 0 }
      asked = times unless times.empty?
      before.call([others, committed]) + times.map { |topic, number, _| [topic, number, number.zero? ? 1 : 0, -1, nil] }
    end
    assert_equal [[1, 0], [0, 1], [0, 2]], places(since: "2026-01-02T03:04:06Z")
    assert_equal [START.to_i + 1] * 2, (asked.map { |*, time| time / 1000 })
    assert_equal [[0, 1], [0, 2]], places(since: "2026-01-02T03:04:06Z", partition: 0)
  end

  def test_a_scan_that_a_limit_ended_says_so
    send_all({ payload: "a" })
    @scan.ended = :time
    text = get("/messages", topic: @topic).text
    assert_match(/1 offsets were looked at, then the limit of time or bytes was reached\./, text)
  end

  def test_wrong_fields_are_named_on_the_page
    send_all({ payload: "a" })
    { { offset: "x" } => "offset = \"x\": expected an Integer >= 0", { partition: "-1" } => "partition = \"-1\"",
      { offset: "9223372036854775808" } => "offset = ", { where: "where(" } => "where" }.each do |query, text|
      page = get("/messages", topic: @topic, **query)
      problem = page.body[%r{<p class="notice bad" role="alert">(.*?)</p>}, 1].to_s
      assert_includes problem.gsub(/&\w+;/, WebKit::ENTITIES), text
    end
    assert_includes get("/messages").text, "Choose a topic"
  end

  def test_a_payload_unfolds_and_is_cut_in_the_list
    send_all({ payload: "#{"p" * 199}qr#{"s" * 5_000}", headers: { "trace" => %w[1 2] } })
    body = get("/messages", topic: @topic).body
    assert_includes body, "<summary><code>#{"p" * 199}q…</code></summary>"
    assert_includes body, "<pre tabindex=\"0\">#{"p" * 199}qr#{"s" * 4_799}…</pre>"
    assert_equal 2, body.scan("trace").size
  end

  # Also of open transactions: they are shown, too.
  def test_messages_and_searches_end_where_the_log_does
    send_all({ payload: "a" })
    asked = []
    native = @app.admin.method(:offsets)
    @app.admin.define_singleton_method(:offsets) do |positions, **how|
      asked << how
      native.call(positions, **how)
    end
    get("/messages", topic: @topic)
    scan = @scan
    scan.define_singleton_method(:bytes) { 0 }
    scan.define_singleton_method(:run) { |_, seconds:, bytes:| [seconds, bytes] && nil }
    Pelton::Web::Search.new(@app, "a").since(:beginning, [[@topic, 0]])
    assert_equal [{ committed: false, timeout: 5 }] * 4, asked.last(4)
  end

  def test_a_message_has_a_page_of_its_own
    send_all({ payload: '{"id":[7]}' }, { key: "k-7", payload: "\xFF\x00".b, headers: { "trace" => "42" } },
             { payload: nil, key: "gone" }, { payload: "" })
    assert_includes CGI.unescapeHTML(get("/message", topic: @topic, partition: 0, offset: 0).body),
                    %({\n  "id": [\n    7\n  ]\n})
    page = get("/message", topic: @topic, partition: 0, offset: 1)
    assert_equal 200, page.status
    %w[k-7 ff00 trace 42].each { |text| assert_includes page.text, text }
    assert_includes page.text, "Message #{@topic}/0 offset 1"
    assert_includes page.text, "2026-01-02 03:04:06 UTC"
    assert_includes get("/message", topic: @topic, partition: 0, offset: 2).text, "no payload (tombstone)"
    assert_includes get("/message", topic: @topic, partition: 0, offset: 3).text, "empty payload"
    [{ offset: 9 }, { offset: "x" }, {}].each do |place|
      assert_equal 404, get("/message", topic: @topic, **{ partition: 0 }, **place).status, place
    end
  end

  def test_a_message_is_published_once_more
    send_all({ payload: "first" }, { key: "k", payload: "second", partition: 1 })
    piped = []
    delivery = Fakes::Delivery.new(@topic, 1, 7)
    pipe = ->(message, **options) { (piped << [message.offset, message.raw_payload, options]) && delivery }
    @app.producer.define_singleton_method(:pipe_sync, &pipe)
    answer = post("/actions/republish", topic: @topic, partition: 1, offset: 0, back: "/message?x=1")
    assert_equal [303, "/message?x=1#outcome"], [answer.status, answer.headers["location"]]
    eventually(20) { @acting.actions.list(@topic).first&.result }
    action = @acting.actions.list(@topic).first
    assert_equal ["stored at orders/1 offset 7", 1], [action.result, action.done]
    post("/actions/republish", topic: @topic, partition: 0, offset: 9)
    eventually(20) { @acting.actions.list(@topic).map(&:result).include?("there is no such message") }
    assert_equal [[0, "second", { to: @topic, partition: 1 }]], piped
  end

  def test_a_form_without_its_place_is_refused
    { { topic: @topic, partition: "x", offset: 0 } => "partition = \"x\": expected a number",
      { topic: @topic, partition: 0 } => "offset", { partition: 0, offset: 0 } => "topic: is missing" }
      .each do |fields, text|
        answer = post("/actions/republish", **fields)
        assert_equal 400, answer.status
        assert_includes answer.body, text
      end
  end

  # The page said that there was no such message.
  def test_a_message_that_was_not_read_in_time_is_not_missing
    reading = Pelton::Web::Reading.new(@app, "orders")
    ended = { complete: false }
    reading.define_singleton_method(:from) do |*|
      Pelton::Web::Reading::Found.new([], 0, ended[:complete])
    end
    error = assert_raises(Pelton::WaitTimeout) { reading.at(0, 7) }
    assert_match(%r{reading orders/0 offset 7 not finished after 5 s}, error.message)
    ended[:complete] = true
    assert_nil reading.at(0, 7)
  end
end
