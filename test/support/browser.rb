# frozen_string_literal: true

require "json"
require "net/http"
require_relative "broker"

# Chromium, driven over the WebDriver protocol. Needs Debian's chromium and chromium-driver.
#   Browser.open { |browser| browser.visit("http://127.0.0.1:9280/") && browser.script("return document.title") }
class Browser
  DRIVER = "/usr/bin/chromedriver"
  CHROMIUM = "/usr/bin/chromium"
  # Seconds for one command, and for a script.
  TIME = 60 * Guard::PATIENCE
  # Keeps the timer that renews a page for `renew`.
  HOLD = <<~JAVASCRIPT
    const later = window.setTimeout;
    window.setTimeout = (work, time, ...rest) => {
      if (time !== 5000) return later(work, time, ...rest);
      window.renewal = work;
      return 0;
    };
  JAVASCRIPT
  ARGUMENTS = %w[--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars].freeze

  # What is not installed, as text; nil: nothing.
  def self.missing
    lacking = [DRIVER, CHROMIUM].reject { |file| File.executable?(file) }
    "no #{lacking.join(" and ")} (Debian: apt-get install chromium chromium-driver)" if lacking.any?
  end

  def self.open(size: [1280, 900], dark: false)
    browser = new(size, dark)
    yield browser
  ensure
    browser&.close
  end

  def initialize(size, dark)
    @port = TestBroker.free_port
    @driver = Process.spawn(DRIVER, "--port=#{@port}", in: File::NULL, out: File::NULL, err: File::NULL)
    await_driver
    arguments = [*ARGUMENTS, "--window-size=#{size.join(",")}", *("--blink-settings=preferredColorScheme=0" if dark)]
    wanted = { capabilities: { alwaysMatch: { "timeouts" => { script: TIME * 1000 },
                                              "goog:chromeOptions" => { args: arguments },
                                              "goog:loggingPrefs" => { browser: "ALL" } } } }
    @session = send_command(:Post, "/session", wanted).fetch("sessionId")
  end

  def visit(url) = command(:Post, "/url", { url: url })
  def script(text, *arguments) = command(:Post, "/execute/sync", { script: text, args: arguments })
  # As `script`; its last argument is a function that takes the result.
  def script_async(text, *arguments) = command(:Post, "/execute/async", { script: text, args: arguments })
  # A PNG.
  def screenshot = command(:Get, "/screenshot").unpack1("m")
  # The text of the page, as it is shown; empty while it is loaded.
  def text = script("return document.body ? document.body.innerText : ''")
  # What the browser complains about: refused scripts and styles, errors of scripts.
  def complaints = command(:Post, "/se/log", { type: "browser" }).map { |entry| entry.fetch("message") }
  # One of Chromium's own commands.
  def chromium(name, **fields) = command(:Post, "/goog/cdp/execute", { cmd: name, params: fields })

  # Shows the page in this size, and in light or dark, without loading it again. Colors change at once.
  def show(size, dark: false)
    chromium("Emulation.setDeviceMetricsOverride", width: size[0], height: size[1], deviceScaleFactor: 1, mobile: false)
    media = { "prefers-color-scheme" => dark ? "dark" : "light", "prefers-reduced-motion" => "reduce" }
    chromium("Emulation.setEmulatedMedia", features: media.map { |name, value| { name: name, value: value } })
  end

  # Pages that are opened from now on renew themselves when `renew` is called, not every 5 seconds.
  def hold_renewals = chromium("Page.addScriptToEvaluateOnNewDocument", source: HOLD)
  # Returns when the page was renewed.
  def renew = script_async("window.renewal().then(arguments[0])")

  # Clicks what the selector finds.
  def click(selector)
    element = command(:Post, "/element", { using: "css selector", value: selector }).values.first
    command(:Post, "/element/#{element}/click", {})
  end

  # Presses a key: a character, or one of WebDriver's.
  def press(key)
    actions = %w[keyDown keyUp].map { |type| { type: type, value: key } }
    command(:Post, "/actions", { actions: [{ type: "key", id: "keyboard", actions: actions }] })
  end

  def close
    send_command(:Delete, "/session/#{@session}") if @session
  ensure
    Process.kill(:TERM, @driver)
    Process.wait(@driver)
  end

  private

  def command(verb, path, body = nil) = send_command(verb, "/session/#{@session}#{path}", body)

  def send_command(verb, path, body = nil)
    request = Net::HTTP.const_get(verb).new(path, "content-type" => "application/json")
    request.body = JSON.generate(body) if body
    answer = Net::HTTP.start("127.0.0.1", @port, read_timeout: TIME) { |http| http.request(request) }
    value = JSON.parse(answer.body).fetch("value")
    raise "#{verb} #{path}: #{value["message"]}" unless answer.is_a?(Net::HTTPSuccess)

    value
  end

  def await_driver
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TIME
    begin
      TCPSocket.open("127.0.0.1", @port).close
    rescue Errno::ECONNREFUSED
      raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      IO.select(nil, nil, nil, 0.05)
      retry
    end
  end
end
