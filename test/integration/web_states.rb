# frozen_string_literal: true

# first: it takes minutes
# time limit: 1800

require "support/axe"
require "support/browser"
require "support/large_cluster"
require "support/scenario"
require "pelton/web/http_server"

# Pages of the dashboard in Chromium that other scenarios do not see: of an empty cluster, of bad input, without Kafka,
# and of 50 processes with 200 partitions each; also a renewal of these, which moves nothing, and the copy of a payload.
#
# once: the browser is the same for each Ruby

Scenario.needs(Browser.missing, Axe.missing)

# Where everything is that does not depend on the width of a number.
PLACES = <<~JAVASCRIPT
  return [...document.querySelectorAll("h1, h2, .figures div, .plot, table, tr, .timeline, footer")].map((element) => {
    const box = element.getBoundingClientRect();
    const numbers = element.matches("table, tr") ? [box.top] : [box.top, box.left, box.width, box.height];
    return [element.tagName, ...numbers].join(" ");
  });
JAVASCRIPT
# The second one is also what a zoom of 400 % leaves of the first one.
SIZES = [[[1280, 900], false], [[320, 640], true]].freeze

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  problems = []
  serve = lambda do |web, &block|
    server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: 0, bus: web.app.notifications)
    block.call("http://127.0.0.1:#{server.port}")
    server.close
    web.close
  end
  Browser.open do |browser|
    browser.hold_renewals
    inspect_page = lambda do |path|
      name = "#{path} at #{browser.script("return innerWidth")}"
      problems.concat(browser.complaints.grep_v(/status of (40[04]|503)/).map { |said| "#{name}: #{said}" })
      wide = browser.script("return document.documentElement.scrollWidth - innerWidth")
      problems << "#{name} is #{wide} pixels too wide" if wide.positive?
      problems.concat(Axe.problems(browser).map { |found| "#{name}: #{found}" })
    end
    # {"/groups" => "No consumer group yet"}: on a desk in light, then on a phone in dark.
    look = lambda do |address, pages|
      pages.each do |path, text|
        browser.visit("#{address}#{path}")
        SIZES.each do |size, dark|
          browser.show(size, dark: dark)
          check(browser.text.include?(text), "#{path} says #{text}: #{browser.text}")
          inspect_page.call(path)
        end
      end
    end

    # --- an empty cluster, bad input, and Kafka is away ---
    all = app
    web = Pelton::Web.new(all, actions: true)
    serve.call(web) do |address|
      empty = { "/" => "No consumer group yet", "/groups" => "No consumer group yet",
                "/topics" => "This cluster has no topics", "/processes" => "No server process has reported",
                "/jobs" => "The app has no schedule", "/errors" => "No server process has reported",
                "/messages" => "Choose a topic", "/dead-letters" => "No dead-letter topic", "/search" => "Finds topics",
                "/settings" => "The settings of the app" }
      wrong = { "/nothing" => "There is no such page", "/topic?name=%3Cb%3E" => "There is no topic <b>",
                "/group?id=x" => "There is no group x", "/message" => "A message needs topic",
                "/messages?topic=x&offset=y" => "expected an Integer", "/search?text=x&in=keys&since=y" => "since",
                "/search?text=nothing" => "No topic and no group has this", "/dead-letters?topic=x.dead" => "x.dead",
                "/process?id=x" => "No process with this id", "/job?id=x" => "schedule_topic" }
      look.call(address, { **empty, **wrong })

      broker.create_topics("paid" => 1)
      long = { key: "k" * 200, headers: { "h" * 200 => "v" * 300 } }
      all.producer.produce_sync(topic: "paid", payload: '{"total":"<b>12 €</b>"}', **long)
      browser.chromium("Browser.grantPermissions", permissions: %w[clipboardReadWrite], origin: address)
      look.call(address, { "/message?topic=paid&partition=0&offset=0" => "Headers" })
      browser.click("button[data-copies]")
      equal("Copied", browser.script("return document.querySelector('button[data-copies]').textContent"), "the button")
      copied = browser.script_async("const done = arguments[0]; " \
                                    "navigator.clipboard.readText().then(done, (e) => done(String(e)))")
      equal("{\n  \"total\": \"<b>12 €</b>\"\n}", copied, "the clipboard")

      broker.stop
      web.history.look
      look.call(address, { "/" => "Kafka did not answer", "/topic?name=paid" => "Kafka did not answer",
                           "/dead-letters?topic=paid" => "(_T", # _TIMED_OUT or _TRANSPORT
                           "/messages?topic=paid" => "(_T", "/message?topic=paid&partition=0&offset=0" => "(_T",
                           "/dead-letter?topic=paid&id=0%2F0" => "(_T" })
    end
    serve.call(Pelton::Web.new(app)) { |address| look.call(address, "/groups" => "The cluster is not known yet") }

    # --- 50 processes with 200 partitions each ---
    web = LargeCluster.dashboard(hour: 180)
    paths = ["/", "/groups", "/group?id=group-of-topic-0", "/topics", "/topic?name=topic-0", "/processes",
             "/process?id=web-1%3A1%3A1", "/errors"]
    browser.show(SIZES.first.first)
    serve.call(web) do |address|
      paths.each do |path|
        browser.visit("#{address}#{path}")
        inspect_page.call(path)
        rows = browser.script("return document.querySelectorAll('tbody tr').length")
        check(rows >= 20, "#{path} has #{rows} rows")
        before = browser.script(PLACES)
        browser.script("window.old = document.querySelector('#live table')")
        LargeCluster.go_on(web)
        browser.renew
        check(browser.script("return !document.contains(window.old)"), "#{path} renews itself")
        moved = browser.script(PLACES).zip(before).reject { |now, old| now == old }
        problems << "#{path} moves #{moved.first(3)}" if moved.any?
      end
    end
    web.app.close
  end
  equal([], problems, "problems")
end
