# frozen_string_literal: true

require "support/browser"
require "support/scenario"
require "pelton/web/http_server"

# The dashboard by keyboard, in Chromium: Escape closes what was unfolded; after an action the focus is on the line that
# says what it does, the page renews itself until it is done, and screen readers hear it; also what was copied. Header,
# content and footer begin at the same place, and a phone shows rows with long texts as cards.
#
# once: the browser is the same for each Ruby

Scenario.needs(Browser.missing)

# WebDriver's keys.
KEYS = { enter: "\uE007", escape: "\uE00C", tab: "\uE004", space: " " }.freeze

Scenario.run do
  # A look asks about each group, and on the shared broker other scenarios leave hundreds.
  self.bootstrap = TestBroker.start.bootstrap
  prefix = unique("keys")
  dead = "#{prefix}.dead"
  schedule = topic(name: "#{prefix}.schedule")
  [prefix, dead].each { |name| topic(name: name) }
  long = "a-consumer-group-with-a-name-that-is-as-long-as-names-of-teams-and-services-and-environments-are"
  reader = consumer { nil }
  all = app(schedule_topic: schedule, serve_schedule: false, group: "#{prefix}.#{long}") { topic prefix, to: reader }
  payload = JSON.generate((1..40).to_h { |number| ["name-#{number}", "a text"] })
  letters = Array.new(3) { { topic: dead, payload: "bad" } }
  all.producer.produce_many_sync([*letters, { topic: prefix, payload: payload }])
  all.admin.alter_group_offsets("#{prefix}.#{long}", { [prefix, 0] => 0 })
  all.producer.produce_later(topic: prefix, payload: "later", id: "one", in: 3600)
  web = Pelton::Web.new(all, actions: true)
  server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: 0, bus: all.notifications)
  address = "http://127.0.0.1:#{server.port}"
  Browser.open do |browser|
    browser.hold_renewals
    focus = -> { browser.script("const at = document.activeElement; return at.id || at.tagName") }
    press = lambda do |*keys|
      keys.each { |key| browser.press(KEYS.fetch(key)) }
    end
    said = -> { browser.script("return document.getElementById('said').textContent") }

    # --- Escape ---
    browser.visit("#{address}/messages?topic=#{prefix}")
    open = -> { browser.script("return document.querySelectorAll('details[open]').length") }
    browser.script("document.querySelector('td summary').focus()")
    press.call(:enter)
    equal(1, open.call, "a message unfolds")
    press.call(:tab)
    press.call(:escape)
    equal([0, "SUMMARY"], [open.call, focus.call], "Escape closes it, and its line has the focus")
    press.call(:escape)
    equal([0, "SUMMARY"], [open.call, focus.call], "Escape again changes nothing")

    # --- the outcome of an action ---
    act = lambda do |path, form, result|
      browser.visit("#{address}#{path}")
      browser.script("document.querySelector('##{form} summary').focus()")
      press.call(:enter, :tab, :enter)
      eventually(60, -> { "#{form}: the focus is on #{focus.call}" }) { focus.call == "outcome" }
      shown = -> { browser.script("return document.getElementById('outcome').textContent") }
      eventually(60, -> { "#{form}: #{browser.text}" }) do
        break true if shown.call.end_with?(result)

        browser.renew
        shown.call.end_with?(result) && check(said.call.end_with?(result), "heard: #{said.call}")
        shown.call.end_with?(result)
      end
      equal("outcome", focus.call, "the focus after #{form}")
      title = browser.script("return document.querySelector('h1').getBoundingClientRect().top")
      check(title >= 0, "#{form}: the title is in view")
      check(browser.script("return document.getElementById('lost').hidden"), "#{form}: #{browser.text}")
    end
    act.call("/dead-letter?topic=#{dead}&id=0%2F0", "delete", "1 done.")
    act.call("/dead-letters?topic=#{dead}", "delete", "2 done.")
    act.call("/message?topic=#{prefix}&partition=0&offset=0", "republish", "stored at #{prefix}/0 offset 1.")
    act.call("/job?id=one", "cancel", "canceled.")

    # --- the copy of a payload ---
    browser.visit("#{address}/message?topic=#{prefix}&partition=0&offset=0")
    browser.script("document.querySelector('button[data-copies]').focus()")
    press.call(:space)
    eventually(20, -> { said.call }) { %w[Copied Selected].include?(said.call) }

    # --- layout ---
    left = lambda do |selector|
      browser.script("const box = document.querySelector('#{selector}').getBoundingClientRect(); " \
                     "return [Math.round(box.left), Math.round(box.right)]")
    end
    [[390, 844], [1280, 900], [1920, 900]].each do |size|
      browser.visit("#{address}/groups")
      browser.show(size)
      places = [".brand a", "h1", "#live > *", "footer p"].map { |selector| left.call(selector).first }
      equal(1, places.uniq.size, "the left edges at #{size.first}: #{places}")
    end
    browser.show([320, 640])
    browser.visit("#{address}/")
    edges = [".figures", ".plot", ".scroll"].map { |selector| left.call(selector) }
    equal(1, edges.uniq.size, "the edges of figures, plots and tables at 320: #{edges}")
    padding = browser.script("return parseFloat(getComputedStyle(document.querySelector('nav a')).paddingLeft)")
    equal(left.call("h1").first, left.call("nav a").first + padding, "where the names of pages begin at 320")
    browser.show([390, 844])
    browser.visit("#{address}/groups")
    check(left.call("#live tbody td.number").last < 390, "a phone shows numbers beside a long name")
    browser.visit("#{address}/messages?topic=#{prefix}")
    _, right = left.call("#content tbody td:last-child")
    check(right <= 390, "a phone shows the payload: #{right}")
    equal([], browser.complaints, "complaints of the browser")
  end
  server.close
  web.close
end
