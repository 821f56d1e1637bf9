# frozen_string_literal: true

# first: it takes minutes
# time limit: 1800
# once: the browser is the same for each Ruby

require "support/axe"
require "support/browser"
require "support/scenario"
require "pelton/web/http_server"

# The dashboard in Chromium while groups consume: each page, on a desk and on a phone, in light and dark, with
# axe-core's checks; the same and forms without JavaScript; its script; by mouse a search, a redrive, a canceled job,
# messages that unfold, and processes that are made quiet and stopped. Another process has reported for a day.
# SCREENSHOTS=FOLDER writes pictures of the pages.

Scenario.needs(Browser.missing, Axe.missing)

# What moves when the script shows the button Pause: [] or HTML. It compares places, because a browser under load also
# reports a shift if it paints a table before it has read all of it.
SHIFTS = <<~JAVASCRIPT
  const button = document.getElementById("pause");
  if (button.hidden) return [];
  const all = [...document.querySelectorAll("h1, #updated, #live")];
  const places = (hidden) => {
    button.hidden = hidden;
    return all.map((element) => JSON.stringify(element.getBoundingClientRect()));
  };
  const [before, after] = [places(true), places(false)];
  return all.filter((_, at) => before[at] !== after[at]).map((element) => element.outerHTML.slice(0, 80));
JAVASCRIPT

# As behind a proxy: each link, form and redirect has to name it.
BASE = "/ops/kafka"
SIZES = [[[1280, 900], false], [[390, 844], true]].freeze

Scenario.run do
  # A look asks about each group, and on the shared broker other scenarios leave hundreds.
  self.bootstrap = TestBroker.start.bootstrap
  prefix = ENV["SCREENSHOTS"] ? "" : "#{unique("web")}."
  orders, payments, invoices, dead = %w[orders payments invoices orders.dead].map { |name| prefix + name }
  topics = { orders => 4, payments => 6, invoices => 2, dead => 1 }
  topics.each { |name, count| topic(name: name, partitions: count) }
  wait = method(:work)
  evil = "<img src=x onerror=alert(1)>"
  slow = consumer { wait.call(messages.size * 0.005) }
  failing = consumer do
    messages.each { |message| {}.fetch("total") if message.key == "bad" }
  rescue KeyError
    raise ArgumentError, "no total #{evil}"
  end
  { "OrdersConsumer" => failing, "PaymentsConsumer" => slow }.each { |name, consumer| Object.const_set(name, consumer) }
  reports, schedule, commands = %w[reports schedule commands].map { |name| topic(name: prefix + name) }
  all = app(kafka: { "auto.commit.interval.ms" => 500 }, concurrency: 4, report_topic: reports, report_interval: 1,
            schedule_topic: schedule, command_topic: commands) do
    recurring "cleanup", cron: "0 3 * * *", topic: invoices, payload: "{}"
    group("#{prefix}billing") { topic(orders, to: failing) { dead_letters dead, retries: 0 } }
    group("#{prefix}audit") { topic(payments, to: slow) { max_messages 20 } }
    group("#{prefix}search") { topic invoices, to: slow }
  end
  all.topics { topic orders, partitions: 6, config: { "retention.ms" => 86_400_000 } }
  web = Pelton::Web.new(all, actions: true)
  server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: 0, bus: all.notifications, base: BASE)
  running = true
  load = Pelton::Threads.start("load") do
    until running == false
      rows = topics.keys.first(3).flat_map do |name|
        Array.new(rand(ENV["SCREENSHOTS"] ? 20..60 : 10..20)) do |number|
          { topic: name, key: "customer-#{number}", payload: "{\"id\":#{number},\"total\":#{number * 3}}" }
        end
      end
      all.producer.produce_many_sync(rows)
      wait.call(0.3)
    end
  end
  bad = Array.new(3) { { topic: orders, key: "bad", payload: "{\"note\":\"#{evil}\"}", headers: { evil => evil } } }
  all.producer.produce_many_sync(bad)
  # Later than this scenario ends on a busy machine.
  { "reminder-7" => 7200, evil => 10_800 }.each do |id, seconds|
    all.producer.produce_later(topic: invoices, key: evil, payload: "{\"note\":\"#{evil}\"}", id: id, in: seconds)
  end
  job = { job_class: "MailJob", executions: 2, exception_executions: { "[Net::ReadTimeout]" => 2 } }
  all.producer.produce_later(topic: invoices, payload: JSON.generate(job), id: "mail", in: 75)
  classes = [["MailJob", 1240, 3, 310.5, 4.2], ["InvoiceJob", 96, 0, 88.1, 1.9]]
  classes << [evil, 5, 1, 0.06, 0.02] unless ENV["SCREENSHOTS"]
  classes.map! { |row| %i[class count failed seconds slowest].zip(row).to_h }
  now = Pelton::Clock.wall
  past = (-96..0).map do |quarter|
    at = now + (quarter * 900) - (quarter.zero? ? 1 : (now % 900) + 1)
    wave = 1 + Math.sin(quarter / 15.0)
    facts = { version: 1, id: "web-2:17:1", at: at, started_at: now - 90_000, interval: 600, host: "web-2", pid: 17,
              process: nil, name: "shop", pelton: "0.1.0", ruby: "3.4.1", state: "running", groups: ["#{prefix}audit"],
              threads: 21, rss: (150_000_000 + (wave * 2e7)).to_i, workers: 5,
              jobs: { running: 0, waiting: 0, aside: 0 }, running: [], left_out: 0, settings: {}, errors: [],
              rates: { in: { "#{prefix}audit" => (wave * 40).round(1) }, out: (wave * 9).round(1), errors: 0 },
              partitions: { "#{prefix}audit" => { payments => [[5, (wave * 30).to_i, "idle"]] } },
              job_classes: classes }
    { topic: reports, key: facts[:id], timestamp: Time.at(at), payload: JSON.generate(facts) }
  end
  all.producer.produce_many_sync(past)
  all.start
  (ENV["SCREENSHOTS"] ? 40 : 6).times do
    web.history.look
    wait.call(1)
  end
  paths = ["/", "/groups", "/group?id=#{prefix}audit", "/topics", "/topic?name=#{orders}", "/messages?topic=#{orders}",
           "/message?topic=#{payments}&partition=0&offset=0", "/dead-letters?topic=#{dead}",
           "/dead-letter?topic=#{dead}&id=0%2F0"]
  eventually(30, "a report") { web.reports.latest.any? { |report| report.errors.any? } }
  id = URI.encode_www_form(id: web.reports.latest.find { |report| report.pid == Process.pid }.id)
  %w[24h 7d].each do |range|
    eventually(60, -> { web.trends.look(range).inspect }) { web.trends.look(range).complete? }
    paths.push("/?range=#{range}", "/group?id=#{prefix}audit&range=#{range}", "/process?#{id}&range=#{range}",
               "/errors?range=#{range}", "/topic?name=#{orders}&range=#{range}")
  end
  # The batch, then its messages one by one: three or more.
  repeated = -> { Pelton::Web::Repeats.of(web.reports.failures).find { |error| error.count >= 3 } }
  eventually(30, -> { web.reports.failures.inspect }, &repeated)
  error = "/error?#{URI.encode_www_form(id: repeated.call.id)}"
  paths.push("/processes", error, "/process?#{id}", "/settings", "/settings?#{id}", "/settings?all=yes", "/jobs",
             "/job?#{URI.encode_www_form(id: evil)}", "/errors",
             "/search?text=customer-1&in=keys+and+payloads&topics=#{orders}")
  problems = []
  address = "http://127.0.0.1:#{server.port}#{BASE}"
  eventually(30, "letters") { web.actions.letters(dead).list.size == 3 }
  pictures = ENV["SCREENSHOTS"]
  Browser.open do |browser|
    browser.hold_renewals
    shot = ->(name) { File.binwrite("#{pictures}/#{name}.png", browser.screenshot) if pictures }
    # What it shows at this time, of one page or, with a block, of the page that it opens.
    await = lambda do |what, text, &open|
      eventually(60, -> { "#{what}: #{browser.text}" }) do
        open&.call
        browser.text.include?(text)
      end
    end
    fill_in = lambda do |fields|
      fields.each do |name, text|
        browser.script("document.querySelector('[name=' + arguments[0] + ']').value = arguments[1]", name, text)
      end
    end

    paths.each do |path|
      browser.visit("#{address}#{path}")
      SIZES.each do |size, dark|
        browser.show(size, dark: dark)
        problems.concat(browser.complaints.map { |text| "#{path}: #{text}" })
        problems.concat(browser.script(SHIFTS).map { |moved| "#{path} at #{size[0]} pixels: Pause moves #{moved}" })
        images = browser.script("return document.images.length")
        problems << "#{path}: markup of a message became an element" if images.positive?
        wide = browser.script("return document.documentElement.scrollWidth")
        problems << "#{path} is #{wide} pixels wide, of #{size[0]}" if wide > size[0]
        browser.script("document.querySelectorAll('details').forEach((details) => { details.open = true; })") if dark
        problems.concat(Axe.problems(browser).map { |text| "#{path} (#{dark ? "dark" : "light"}): #{text}" })
        ground = browser.script("return getComputedStyle(document.body).backgroundColor")
        problems << "#{path}: ground #{ground}" if ground != (dark ? "rgb(18, 23, 29)" : "rgb(255, 255, 255)")
        shot.call([path[%r{\A/([\w-]+)}, 1] || "overview", *path[/range=(\w+)/, 1], size[0]].join("-"))
      end
    end
    equal([], problems, "problems")
    browser.visit("#{address}#{error}")
    await.call("the cause of an error", "Caused by KeyError")
    check(browser.text.match?(%r{test/integration/web_browser\.rb:\d+:in .*fetch.*lines as above}m), browser.text)
    browser.visit("#{address}/errors")
    browser.click("td summary")
    eventually(60, -> { browser.text }) { browser.text.match?(/\d+ earlier failures\s+\d{4}-\d\d-\d\d/) }

    # --- without JavaScript ---
    browser.show(SIZES.first.first)
    browser.chromium("Emulation.setScriptExecutionDisabled", value: true)
    # Without scripts, the driver does not wait for the next page.
    follow = lambda do |selector|
      browser.script("document.body.id = 'left'")
      browser.click(selector)
      eventually(60, selector) do
        browser.script("return document.readyState === 'complete' && document.body.id !== 'left'")
      rescue RuntimeError # the page of the script is gone
        false
      end
    end
    fill = lambda do |**fields|
      fill_in.call(fields)
      follow.call("form.fields button")
    end
    paths.each do |path|
      browser.visit("#{address}#{path}")
      check(browser.script("return document.getElementById('pause').hidden"), "#{path}: its script ran")
      link = browser.script("const one = document.querySelector('.status a'); return [one.textContent, one.href]")
      equal(["Reload", "#{address}#{path}"], link, "the link of #{path}")
    end
    browser.visit("#{address}/messages")
    fill.call(topic: orders, partition: 0, offset: 0)
    await.call("the messages from an offset on", "50 messages, oldest first.")
    browser.click("td summary")
    await.call("an unfolded message", "The whole message")
    browser.visit("#{address}/")
    follow.call(".ranges li:nth-child(2) a")
    equal("#{address}/?range=24h", browser.script("return window.location.href"), "the link to a day")
    # A quarter of an hour may just have ended: then a further value is read.
    await.call("a day", "From the reports of processes, a value each 15 min.") { follow.call(".status a") }
    browser.visit("#{address}/search")
    fill.call(text: "reminder-7", topics: schedule, in: "keys")
    await.call("a search", "1 message in ")
    browser.visit("#{address}/settings")
    fill.call(id: URI.decode_www_form(id).to_h["id"])
    await.call("the settings of a process", "reported at")
    browser.visit("#{address}/dead-letters?topic=#{dead}")
    fill.call(error: "ArgumentError")
    await.call("the letters with an error", "Redrive 3 letters")
    browser.visit("#{address}/dead-letter?topic=#{dead}&id=0%2F0")
    browser.click("#delete summary")
    follow.call("#delete button")
    await.call("a deleted letter", "1 done.") { follow.call(".status a") }
    browser.chromium("Emulation.setScriptExecutionDisabled", value: false)

    # --- with it: renewals, and actions ---
    browser.show(SIZES.first.first, dark: true)
    browser.visit("#{address}/")
    shot.call("overview-dark")
    { "/groups" => "a", "/processes" => "summary" }.each do |path, element|
      browser.visit("#{address}#{path}")
      first = browser.script("return document.querySelector('#updated time').dateTime")
      browser.script("window.old = document.querySelector('#live table'); " \
                     "document.querySelector('#live #{element}').focus()")
      eventually(60, "#{path} renews itself") do
        browser.renew
        browser.script("return document.querySelector('#updated time').dateTime") != first
      end
      check(browser.script("return !document.contains(window.old)"), "#{path} has a new table")
      equal(element.upcase, browser.script("return document.activeElement.tagName"), "the focus on #{path} stays")
    end
    browser.script("document.getElementById('pause').className = ''")
    check(browser.script(SHIFTS).any?, "without the reserved place, it moves something")
    browser.script("document.getElementById('pause').className = 'reserved'")
    browser.click("#pause")
    equal("Resume", browser.script("return document.getElementById('pause').textContent"), "the button")
    browser.script("window.old = document.querySelector('#live table')")
    browser.renew
    check(browser.script("return document.contains(window.old)"), "a page that pauses stays as it is")

    letters = -> { browser.visit("#{address}/dead-letters?topic=#{dead}") }
    letters.call
    browser.click("input[value='0/1']")
    shot.call("dead-letters-selected")
    browser.click("#selected button[formaction]")
    await.call("a selected letter is deleted", "Delete 0/1 of #{dead}: 1 done.", &letters)
    browser.click("#redrive summary")
    browser.click("#redrive button")
    await.call("a redrive of the other one", "Redrive all letters of #{dead}: 1 done.", &letters)
    browser.visit("#{address}/search")
    fill_in.call(text: "reminder-7", topics: schedule, in: "keys")
    browser.click("form.fields button")
    await.call("a search", "1 message in ")
    browser.visit("#{address}/job?id=reminder-7")
    browser.click("#cancel summary")
    browser.click("#cancel button")
    await.call("a canceled job", "Cancel reminder-7: canceled.") { browser.visit("#{address}/jobs") }
    check(browser.script("return document.querySelector('a[href*=reminder-7]') === null"), "the canceled job is gone")
    # All processes: those that take commands. The browser insists on the box.
    { "quiet" => "quiet", "resume" => "running" }.each do |action, state|
      browser.visit("#{address}/processes")
      browser.click("##{action} summary")
      browser.click("##{action} button")
      equal(false, browser.script("return document.querySelector('#{"##{action} form"}').checkValidity()"), "the box")
      browser.click("##{action} input[type=checkbox]")
      shot.call("processes-#{action}")
      browser.click("##{action} button")
      await.call("#{action} all", "#{action.capitalize} 1 process: 1 done.") { browser.renew }
      equal(state, all.server.status.to_s, "the server")
    end
    { "quiet" => "quiet", "resume" => "running", "stop" => "stopped" }.each do |action, state|
      browser.visit("#{address}/process?#{id}")
      browser.click("##{action} summary")
      shot.call("process-#{action}")
      browser.click("##{action} button")
      eventually(60, -> { "#{action}: #{browser.text}" }) do
        browser.renew
        browser.script("return document.querySelector('.figures .badge')?.textContent") == state &&
          browser.text.match?(/^#{action.capitalize} \S+: it is \w+\.$/)
      end
      shot.call("process-#{state}")
    end
    check(browser.script("return document.querySelector('#live form') === null"), "no command to a stopped process")
    equal(:stopped, all.server.status, "the server")
    equal([], browser.complaints, "complaints of the browser about actions")
  end
  running = false
  load.join
  equal([], events(all, "error.occurred").reject { |event| event[:error].is_a?(ArgumentError) }, "errors")
  server.close
  web.close
end
