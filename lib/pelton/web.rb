# frozen_string_literal: true

module Pelton
  class Web
    # Named before its parts are loaded: otherwise the autoload of pelton.rb would load this file again.
  end
end

require_relative "errors"
require_relative "version"
require_relative "web/access"
require_relative "web/actions"
require_relative "web/history"
require_relative "web/pages/dead_letters"
require_relative "web/pages/errors"
require_relative "web/pages/groups"
require_relative "web/pages/jobs"
require_relative "web/pages/messages"
require_relative "web/pages/overview"
require_relative "web/pages/processes"
require_relative "web/pages/refusal"
require_relative "web/pages/search"
require_relative "web/pages/settings"
require_relative "web/pages/topics"
require_relative "web/report_history"
require_relative "web/request"
require_relative "web/sizes"
require_relative "web/topic_trends"
require_relative "web/trend_reading"
require_relative "web/trends"

module Pelton
  # The dashboard: a Rack app that shows a cluster with its groups and topics. `pelton web` serves it; any Rack app can
  # mount it. It needs Kafka and nothing else. It keeps an hour of history in memory, and reads a week of it from the
  # reports of processes.
  #   mount Pelton::Web.new(allow_remote: true), at: "/kafka" # behind the authentication of your app
  # From any thread. The first request starts one thread, "pelton.web.history"; `close` ends it.
  class Web
    ASSETS = File.expand_path("web/assets", __dir__)
    TYPES = { ".css" => "text/css; charset=utf-8", ".js" => "text/javascript; charset=utf-8",
              ".svg" => "image/svg+xml" }.freeze
    PAGES = { "/" => Pages::Overview, "/groups" => Pages::Groups, "/group" => Pages::Group,
              "/topics" => Pages::Topics, "/topic" => Pages::Topic,
              "/processes" => Pages::Processes, "/process" => Pages::ServerProcess,
              "/jobs" => Pages::Jobs, "/job" => Pages::Job, "/errors" => Pages::Errors,
              "/error" => Pages::RepeatedError,
              "/messages" => Pages::Messages, "/message" => Pages::Message, "/dead-letters" => Pages::DeadLetters,
              "/dead-letter" => Pages::DeadLetter, "/search" => Pages::Search,
              "/settings" => Pages::Settings }.freeze
    # No inline script and style, nothing from elsewhere, no frame around it.
    HEADERS = {
      "content-security-policy" => "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " \
                                   "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      "x-content-type-options" => "nosniff", "referrer-policy" => "same-origin", "cache-control" => "no-store"
    }.freeze
    private_constant :ASSETS, :TYPES, :PAGES, :HEADERS

    @lock = Mutex.new

    # The Rack app of Pelton.app, for `mount Pelton::Web`. It answers only requests from this machine.
    #   mount Pelton::Web, at: "/kafka"
    #: (Hash[String, untyped]) -> [Integer, Hash[String, String], Array[String]]
    def self.call(env) = @lock.synchronize { @default ||= new }.call(env)

    # app: nil means Pelton.app. user, password: asked for by HTTP's basic authentication. allow_remote: true answers
    # other machines without a password; only behind an authentication of your own. actions: true lets readers redrive
    # and delete dead letters, publish messages once more, cancel or send scheduled ones, and quiet or stop processes.
    # Raises ConfigError.
    #   Pelton::Web.new(user: "ops", password: ENV.fetch("DASHBOARD_PASSWORD"))
    #: (?App?, ?user: String?, ?password: String?, ?allow_remote: bool, ?actions: bool) -> void
    def initialize(app = nil, user: nil, password: nil, allow_remote: false, actions: false)
      @app = app
      @access = Access.new(user: user, password: password, allow_remote: allow_remote)
      @actions = Actions.new(self, actions)
      markers = Offsets::Markers.new { |ranges| Offsets::Markers.read(self.app, ranges) }
      waits = Waits.new { |times| self.app.admin.offsets(times, committed: false, timeout: 2) }
      @history = History.new(markers: markers, waits: waits) { self.app.admin }
      @reports = ReportHistory.new { |options, each| self.app.each(report_topic, **options, &each) }
      read_later
    end

    # The app whose cluster it shows.
    #   web.app.config.client_id # => "pelton"
    #: () -> App
    def app = @app || Pelton.app

    # For Pelton: what the pages show of the cluster.
    #: () -> History
    attr_reader :history
    # For Pelton: what the pages show of server processes.
    #: () -> ReportHistory
    attr_reader :reports
    # For Pelton: the same for a day and a week.
    #: () -> Trends
    attr_reader :trends
    # For Pelton: about how large topics are.
    #: () -> Sizes
    attr_reader :sizes
    # For Pelton: a day and a week of topics.
    #: () -> TopicTrends
    attr_reader :topic_trends

    # For Pelton: where the processes report.
    #: () -> String
    def report_topic = Reports.topic(app.config)
    # For Pelton: where they take commands.
    #: () -> String
    def command_topic = Reports.command_topic(app.config)
    # For Pelton: what readers may change.
    #: () -> Actions
    attr_reader :actions

    # Answers a request, as Rack defines it. Its errors become a page with status 500 and the event error.occurred.
    #   web.call(env) # => [200, { "content-type" => "text/html; charset=utf-8", … }, ["<!doctype html>…"]]
    #: (Hash[String, untyped]) -> [Integer, Hash[String, String], Array[String]]
    def call(env)
      request = Request.new(env)
      status, headers, body = answer(request)
      return [status, { **HEADERS, **headers }, [body]] unless request.verb == "HEAD"

      [status, { **HEADERS, **headers, "content-length" => body.bytesize.to_s }, []]
    end

    # Ends its threads. The app's clients stay open. From any thread, any number of times.
    #   at_exit { web.close }
    #: () -> void
    def close
      @actions.close
      @topic_trends.close
      @sizes.close
      @trends.close
      @reports.close
      @history.close
    end

    def inspect = "#<#{self.class} #{app.config.client_id}>"

    private

    # What only some pages show is read when one asks.
    def read_later
      @trends = Trends.new do |times, stop, &each|
        longest = @reports.latest.map(&:interval).max || app.config.report_interval
        TrendReading.new(app, report_topic, longest: longest).each(times, stop, &each)
      end
      @sizes = Sizes.new { |*asked, &each| SizeReading.new(app).each(*asked, &each) }
      @topic_trends = TopicTrends.new do |name|
        Trends.new(sample: TopicSample) { |*asked, &each| TopicReading.new(app, name).each(*asked, &each) }
      end
    end

    def answer(request)
      refused = @access.refusal(request)
      return refused if refused
      return @actions.call(request) if request.verb == "POST"
      return plain(405, "method not allowed", "allow" => "GET, HEAD, POST") unless request.get?
      return download(request) if request.path == "/download"

      asset(request) || page(request)
    rescue StandardError => e
      app.notifications.publish("error.occurred", error: e, source: "web")
      plain(500, "The page failed: #{e.class}. The app's error.occurred event and log have the details.")
    end

    def asset(request)
      name = request.path.delete_prefix("/assets/")
      return unless request.path.start_with?("/assets/") && Dir.children(ASSETS).include?(name)

      [200, { "content-type" => TYPES.fetch(File.extname(name)), "cache-control" => "max-age=300" },
       File.read(File.join(ASSETS, name))]
    end

    def page(request)
      kind = PAGES[request.path] or raise Page::NotFound, "There is no such page."
      html(kind.new(self, request))
    rescue Page::NotFound, Page::TooLate, KafkaError => e
      html(Pages::Refusal.new(self, request, status(e), e.message))
    end

    # 503: it may be there, but Kafka does not say.
    def status(error)
      error.is_a?(Page::TooLate) || (error.is_a?(KafkaError) && Page.away?(error)) ? 503 : 404
    end

    # The page first: it may make a token, which the cookie then has.
    def html(page)
      text = page.to_html
      cookie = page.set_cookie
      [page.status, { "content-type" => "text/html; charset=utf-8", "set-cookie" => cookie }.compact, text]
    end

    # The bytes of a payload, as a file.
    def download(request)
      message = Pages::Message.new(self, request).message
      name = "#{message.topic}-#{message.partition}-#{message.offset}.bin"
      [200, { "content-type" => "application/octet-stream",
              "content-disposition" => "attachment; filename=\"#{name}\"" }, message.raw_payload.to_s]
    rescue Page::NotFound, Page::TooLate, KafkaError => e
      plain(status(e), e.message)
    end

    def plain(...) = Access.plain(...)
  end
end
