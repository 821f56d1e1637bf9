# frozen_string_literal: true

require "support/scenario"
require "stringio"
require "uri"

# The dashboard's pages of messages, dead letters, errors and scheduled jobs, and its search, with hostile keys,
# headers, payloads and errors; and its actions.
#
# once: it is our own Ruby in front of clients that other scenarios run on each Ruby

Scenario.run do
  # A look asks about each group, and on the shared broker other scenarios leave hundreds.
  self.bootstrap = TestBroker.start.bootstrap
  evil = "<script>alert('x')</script>"
  name = topic(partitions: 3)
  dead = topic(name: "#{name}.dead")
  broken = true
  seen = Thread::Queue.new
  reader = consumer do
    messages.each do |message|
      raise ArgumentError, "broken #{evil}" if broken && message.raw_payload.include?("bad")

      seen << message.raw_payload
    end
  end
  schedule = topic(partitions: 2)
  reports = topic(name: unique("reports"))
  all = app(group: unique("letters"), schedule_topic: schedule, report_topic: reports, report_interval: 0.3) do
    topic(name, to: reader) do
      dead_letters dead, retries: 0
    end
  end
  web = Pelton::Web.new(all, actions: true)
  ask = lambda do |verb, path, query, **env|
    form = URI.encode_www_form(query)
    web.call({ "REQUEST_METHOD" => verb, "PATH_INFO" => path, "QUERY_STRING" => verb == "GET" ? form : "",
               "rack.input" => StringIO.new(form), "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost",
               "SCRIPT_NAME" => "", **env.transform_keys(&:to_s) })
  end
  get = lambda do |path, **query|
    status, headers, body = ask.call("GET", path, query)
    page = body.join.force_encoding(Encoding::UTF_8)
    check(!page.include?(evil), "#{path}: a script")
    [status, page.gsub(/<[^>]*>/, " ").gsub(/\s+/, " "), headers, page]
  end
  rows = Array.new(9) do |index|
    { topic: name, partition: index % 3, key: "k#{index}", payload: "{\"total\":#{index}}" }
  end
  rows << { topic: name, partition: 0, key: evil, payload: "{\"bad\":\"#{evil}\"}", headers: { evil => evil } }
  rows << { topic: name, partition: 1, key: "\xFF\x00".b, payload: "\xFE\xFFbad".b }
  all.producer.produce_many_sync(rows)

  _, text, = get.call("/messages", topic: name)
  check(text.include?("11 messages, newest first."), text)
  check(text.include?("&lt;script&gt;") && text.include?("ff00"), "escaped, and bytes as hexadecimal digits: #{text}")
  other = topic(name: unique("empty"))
  all.producer.produce_many_sync([{ topic: other, payload: "" }, { topic: other, payload: nil }])
  _, text, = get.call("/messages", topic: other)
  check(text.include?(" empty payload ") && text.include?(" no payload (tombstone) "), "can be unfolded: #{text}")
  many = topic(name: unique("many"), partitions: 2)
  all.producer.produce_many_sync(Array.new(70) { |index| { topic: many, partition: index % 2, payload: index.to_s } })
  older = get.call("/messages", topic: many)[3][%r{/messages\?([^"]+)">Older messages}, 1]
  text = get.call("/messages", **URI.decode_www_form(older.gsub("&amp;", "&")).to_h.transform_keys(&:to_sym))[1]
  check(text.include?("20 messages, newest first.") && !text.include?("Older messages"), text)
  _, text, = get.call("/messages", topic: name, where: 'where("total").gt(6)')
  check(text.include?("2 messages, newest first. 11 offsets were looked at."), text)
  _, text, = get.call("/messages", topic: name, key: "k4")
  check(text.include?("1 message, newest first."), text)
  _, text, = get.call("/messages", topic: name, partition: 0, offset: 2)
  check(text.include?("2 messages, oldest first."), text)
  _, text, = get.call("/messages", topic: name, since: "1h")
  check(text.include?("11 messages, oldest first."), text)
  search = ->(words, **more) { get.call("/search", text: words, topics: name, **more)[1] }
  text = search.call('total":4', in: "payloads")
  check(text.match?(%r{1 message in 11 offsets, \d+ B read\. .*#{name}/1 offset 1 .* \{&quot; total&quot;:4 \}}), text)
  text = search.call(evil, in: "keys and payloads")
  check(text.include?("#{name}/0 offset 3") && text.include?("&lt;script&gt;"), text)
  text = search.call("k", in: "keys", since: "0s")
  check(text.include?("0 messages in 0 offsets"), text)
  _, text, = get.call("/message", topic: name, partition: 0, offset: 3)
  check(text.include?("&quot;bad&quot;: &quot;&lt;script&gt;") && text.include?("Headers"), text)
  status, headers, body = ask.call("GET", "/download", { topic: name, partition: 1, offset: 3 })
  equal([200, "\xFE\xFFbad".b], [status, body.join.b], "the download")
  check(headers["content-disposition"].include?("attachment"), headers.inspect)
  equal(404, get.call("/message", topic: name, partition: 0, offset: 99).first, "no such offset")

  all.start
  letters = -> { get.call("/dead-letters", topic: dead) }
  eventually(30, -> { letters.call[1] }) { letters.call[1].include?("ArgumentError 2 ") }
  check(get.call("/dead-letters")[1].include?(dead), "the list of topics")
  failed = %r{ArgumentError broken &lt;script&gt;.* #{name}/0 offset 3 }
  eventually(30, -> { get.call("/errors")[1] }) { get.call("/errors")[1].match?(failed) }
  _, text, headers, page = get.call("/dead-letter", topic: dead, id: "0/0")
  check(text.include?("broken &lt;script&gt;") && text.include?("test/integration/web_letters.rb"), text)
  token = page[/name="token" value="(\h+)"/, 1]
  check(headers["set-cookie"].include?("pelton_token=#{token}; Path=/; HttpOnly; SameSite=Strict"), headers.inspect)

  own = { HTTP_COOKIE: "pelton_token=#{token}", HTTP_ORIGIN: "http://localhost", "rack.url_scheme": "http" }
  equal(403, ask.call("POST", "/actions/delete", { topic: dead }, **own).first, "without the token")
  broken = false
  healthy = []
  eventually(30, -> { "nine messages that are fine, not #{healthy}" }) { (healthy |= take(seen, seen.size)).size == 9 }
  act = lambda do |path, result, **fields|
    status, headers, = ask.call("POST", path, { token: token, back: "/dead-letters?topic=#{dead}", **fields }, **own)
    equal([303, "/dead-letters?topic=#{dead}#outcome"], [status, headers["location"]], path)
    eventually(60, path) { !web.actions.running? }
    equal([result, nil], web.actions.list.first.to_h.values_at(:result, :failed), path)
  end
  act.call("/actions/delete", "1 done", topic: dead, selected: "yes", letter: ["0/0"])
  act.call("/actions/redrive", "1 done", topic: dead, error: "ArgumentError")
  check(letters.call[1].include?("No open letter here.") && letters.call[1].include?("1 done."), letters.call[1])
  eventually(30, "the redriven message") { seen.size.positive? }
  check(seen.pop.include?("bad"), "what was redriven")
  act.call("/actions/republish", "stored at #{name}/2 offset 3", topic: name, partition: 2, offset: 0)
  eventually(30, "the copy") { seen.size.positive? }
  equal("{\"total\":2}", seen.pop, "what was published again")
  later = ->(id) { all.producer.produce_later(topic: name, payload: "later #{id}", id: id, in: 3600) }
  %w[one two].push(evil).each(&later)
  # As Active Job's adapter writes a job that failed before.
  job = { job_class: "MailJob", executions: 2, exception_executions: { "[KeyError]" => 2 } }
  all.producer.produce_later(topic: name, payload: JSON.generate(job), id: "job", in: 3600)
  text = get.call("/jobs")[1]
  check(text.match?(/4 messages: #{name} 4\. .* one #{name} none 9 B .*Recurring None/), text)
  check(text.match?(/Retried jobs .* MailJob in \S+ min .* 2 KeyError #{name} /), text)
  check(get.call("/job", id: evil)[1].include?("later &lt;script&gt;"), "the payload of a job")
  act.call("/actions/cancel", "canceled", id: "one", back: "/dead-letters?topic=#{dead}")
  act.call("/actions/send", "a server sends it now", id: "two", back: "/dead-letters?topic=#{dead}")
  eventually(30, "the message that was sent at once") { seen.size.positive? }
  equal("later two", seen.pop, "what was sent")
  eventually(30, -> { get.call("/jobs")[1] }) { get.call("/jobs")[1].include?("2 messages: #{name} 2.") }
  equal([], events(all, "error.occurred").reject { |event| event[:error].is_a?(ArgumentError) }, "errors")
  equal(true, all.stop, "stop")
  web.close
end
