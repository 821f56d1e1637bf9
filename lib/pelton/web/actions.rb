# frozen_string_literal: true

require "openssl"
require "uri"
require_relative "../background"
require_relative "../cli/messages/message_format"
require_relative "../errors"
require_relative "../runtime/threads"
require_relative "access"
require_relative "process_commands"
require_relative "reading"

module Pelton
  class Web
    # What the pages can change, if `actions: true` allows it: dead letters are redriven or deleted, a message is sent
    # once more, a scheduled one is sent now or canceled, one process or all get a command. A form needs the token of
    # its reader's cookie, so another site cannot send it. Each action runs on a thread of its own,
    # "pelton.web.action"; the pages show its progress.
    class Actions
      # One action. topic: or the id of a process, or PROCESSES; its pages show the action. done: letters or processes
      # (noun) so far. result: the text at its end; nil: it runs.
      Action = Struct.new(:text, :topic, :done, :noun, :result, :failed, :at, keyword_init: true)
      # All processes.
      PROCESSES = "processes"
      # The id of the line that says what the latest action did.
      OUTCOME = "outcome"
      # Most actions that are remembered, and letters that one names; and seconds that `close` waits for one.
      MOST = 20
      FEW = 5
      CLOSE = 10
      OFF = "Actions are switched off: start the dashboard with --actions, or Pelton::Web.new(actions: true)."
      FORGED = "This form does not come from the dashboard, or is too old. Go back and try again."
      private_constant :MOST, :FEW, :CLOSE, :OFF, :FORGED

      #: (Web, bool) -> void
      def initialize(web, enabled)
        @web = web
        @enabled = enabled
        @commands = ProcessCommands.new(web)
        @lock = Mutex.new
        # Newest first; its values change while it runs. Under @lock.
        @list = []
        # {Thread => Background::Stop}. Under @lock.
        @running = {}
      end

      #: () -> bool
      def enabled? = @enabled

      # Actions on this topic or process, or all, newest first.
      #: (?String?) -> Array[Action]
      def list(topic = nil)
        @lock.synchronize { @list.select { |action| topic.nil? || action.topic == topic }.map(&:dup) }
      end

      #: (?String?) -> bool
      def running?(topic = nil) = list(topic).any? { |action| action.result.nil? }

      # The letters of a topic, decoded as its route says.
      #: (String) -> DeadLetters
      def letters(topic)
        app = @web.app
        route = CLI::MessageFormat.route_of(app, topic)
        how = route ? { decode: route.decode, deserializer: route.deserializer } : {}
        app.dead_letters(topic, **how)
      end

      # Answers a form.
      #: (Request) -> [Integer, Hash[String, String], String]
      def call(request)
        return Access.plain(403, OFF) unless @enabled
        return Access.plain(403, FORGED) unless own?(request)

        case request.path
        when "/actions/redrive", "/actions/delete" then letters_action(request)
        when "/actions/republish" then republish(request)
        when "/actions/cancel", "/actions/send" then schedule_action(request)
        when "/actions/quiet", "/actions/resume", "/actions/stop" then process_action(request)
        else return Access.plain(404, "There is no such action.")
        end
        [303, { "location" => "#{request.base}#{back(request)}##{OUTCOME}" }, ""]
      rescue ConfigError => e
        Access.plain(400, e.message)
      end

      # The processes that such a command to all of them reaches.
      #: (String) -> Array[Reports::Report]
      def reached(action) = @commands.reached(action)

      # Asks actions to end after their current transaction, and waits for them.
      #: () -> void
      def close
        running = @lock.synchronize { @running.dup }
        running.each_value(&:ask)
        Threads.join(running.keys, CLOSE)
      end

      private

      # A page of another site can neither read the cookie nor, in newer browsers, hide where it is from.
      def own?(request)
        return false unless from_here?(request)

        kept = request.cookie(Request::TOKEN).to_s
        !kept.empty? && OpenSSL.secure_compare(request[:token].to_s, kept)
      end

      # No page can set Sec-Fetch-Site. Browsers send it only by TLS or to their own machine.
      def from_here?(request)
        site = request.header("SEC_FETCH_SITE")
        return site == "same-origin" if site

        origin = request.header("ORIGIN")
        origin.nil? || URI(origin).then { |uri| hosts(request).include?("#{uri.host}:#{uri.port}") }
      rescue URI::InvalidURIError
        false
      end

      # Names with ports that the browser may know it by. A proxy may put its own into Host.
      def hosts(request)
        port = request.scheme == "https" ? 443 : 80
        named = [request.header("HOST"), request.header("X_FORWARDED_HOST").to_s[/[^,\s]+/]].compact
        named.map { |host| host.match?(/:\d+\z/) ? host : "#{host}:#{port}" }
      end

      # A path of the dashboard, not of another site.
      def back(request) = request[:back].to_s[%r{\A/(?![/\\])[^\s#]*\z}] || "/"

      def letters_action(request)
        topic = request[:topic] or raise ConfigError.new("topic", nil, "is missing")
        work = request.path.delete_prefix("/actions/").to_sym
        filters = { error: request[:error], id: ids(request) }.compact
        which = filters.empty? ? "all letters" : shown(filters.values.flatten)
        run("#{work.to_s.capitalize} #{which} of #{topic}", topic) do |action, stop|
          result = letters(topic).public_send(work, **filters, stop: stop) do |_, problem|
            action.done += 1 unless problem
          end
          skipped = result.skipped.map { |reason, count| "; #{count} skipped: #{reason}" }
          "#{result.handled} done#{skipped.join}#{"; stopped before #{result.stopped_at}" if result.stopped_at}"
        end
      end

      # Of one letter, or of those whose boxes are checked. nil: of all. A form whose boxes are all unchecked would look
      # like one for all letters, so it has a field `selected`.
      def ids(request)
        return request[:id] unless request[:selected]

        request.all(:letter).tap do |places|
          raise ConfigError.new("letter", nil, "check the box of at least one letter") if places.empty?
        end
      end

      # "KeyError, 0/1", or "12 letters"
      def shown(names) = names.size > FEW ? "#{names.size} letters" : names.join(", ")

      def republish(request)
        topic = request[:topic] or raise ConfigError.new("topic", nil, "is missing")
        place = %i[partition offset].map do |name|
          number = Integer(request[name].to_s, 10, exception: false)
          number or raise ConfigError.new(name, request[name], "expected a number")
        end
        run("Publish #{topic}/#{place.join(" offset ")} once more", topic) do |action, _|
          app = @web.app
          message = Reading.new(app, topic).at(*place) or next "there is no such message"
          delivery = app.producer.pipe_sync(message, to: topic, partition: message.partition)
          action.done = 1
          "stored at #{topic}/#{delivery.partition} offset #{delivery.offset}"
        end
      end

      def schedule_action(request)
        id = request[:id] or raise ConfigError.new("id", nil, "is missing")
        send_now = request.path == "/actions/send"
        schedule = @web.app.schedule
        run("#{send_now ? "Send" : "Cancel"} #{id}", @web.app.config.schedule_topic) do
          found = send_now ? schedule.reschedule(id, in: 0) : schedule.cancel(id)
          next "no message waits under this id" unless found

          send_now ? "a server sends it now" : "canceled"
        end
      end

      def process_action(request)
        action = request.path.delete_prefix("/actions/")
        return all_processes(action, request) if request[:all]

        report = @commands.process(request[:id])
        run("#{action.capitalize} #{report.process_name}", report.id) do |progress, stop|
          @commands.command_process(action, report, progress, stop)
        end
      end

      # The form has a box that its reader has to check.
      def all_processes(action, request)
        confirm = request[:confirm]
        raise ConfigError.new("confirm", confirm, "check the box to confirm") unless confirm == "yes"

        reports = @commands.reached(action)
        raise ConfigError.new("all", nil, "there is no process to #{action}") if reports.empty?

        text = "#{action.capitalize} #{reports.size} #{reports.size == 1 ? "process" : "processes"}"
        run(text, PROCESSES, "process") do |progress, stop|
          @commands.command_processes(action, reports, progress, stop)
        end
      end

      def run(text, topic, noun = "letter", &work)
        action = Action.new(text: text, topic: topic, done: 0, noun: noun, at: Time.now)
        stop = Background::Stop.new
        @lock.synchronize do
          @list.unshift(action)
          @list.pop if @list.size > MOST
          thread = Threads.start("pelton.web.action") { carry_out(action, stop, &work) }
          @running[thread] = stop
        end
      end

      def carry_out(action, stop)
        result = yield action, stop
      rescue StandardError => e # the page shows it
        result = e.message
        action.failed = true
      ensure
        @lock.synchronize do
          action.result = result || "was interrupted"
          @running.delete(Thread.current)
        end
      end
    end
  end
end
