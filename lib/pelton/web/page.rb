# frozen_string_literal: true

require "uri"
require_relative "../reports/summary"
require_relative "../runtime/clock"
require_relative "../version"
require_relative "html"
require_relative "../logging/numbers"
require_relative "plot"
require_relative "series"

module Pelton
  class Web
    # The base class of pages. A page has a view of its name in views/, which reads the page's methods.
    class Page
      include Views

      MENU = { "/" => "Overview", "/groups" => "Groups", "/topics" => "Topics", "/processes" => "Processes",
               "/jobs" => "Jobs", "/errors" => "Errors", "/messages" => "Messages", "/dead-letters" => "Dead letters",
               "/search" => "Search", "/settings" => "Settings" }.freeze

      # Errors of a look at the cluster after which each further question would wait for seconds, and fail.
      AWAY = %i[_TRANSPORT _TIMED_OUT _ALL_BROKERS_DOWN].freeze
      # Seconds that a look at the cluster takes before pages say so.
      SLOW = 5
      # Seconds that a page waits for a question to Kafka.
      ASK = 5
      private_constant :AWAY, :SLOW, :ASK

      # Most rows of a table.
      MOST = 200

      # Characters of a name or text that a process reported.
      LONGEST = 200

      # Did Kafka not answer?
      #: (KafkaError) -> bool
      def self.away?(error) = AWAY.include?(error.name)

      # Raised by a page: what it should show is not there, or was not read in time.
      NotFound = Class.new(StandardError)
      TooLate = Class.new(StandardError)

      #: (Web, Request) -> void
      def initialize(web, request)
        @web = web
        @request = request
        @now, @error = web.history.latest
        @looking = web.history.looking_for
      end

      # The whole document. Raises NotFound.
      #: () -> Html
      def to_html
        @renews = live? # first: an action may end while the page is made, and then it still has to show the result
        @main = @now || !needs_cluster? ? content : Html.new(view_waiting)
        view_layout
      end

      #: () -> Integer
      def status = 200

      # For forms: see Request.
      #: () -> String?
      def set_cookie = request.set_cookie

      private

      attr_reader :web, :request, :now, :error, :main

      # Raises why Kafka did not answer, if it is away. An account may lack the right to look at the whole cluster, and
      # yet read messages.
      def check_kafka
        raise error if error.is_a?(KafkaError) && Page.away?(error)
      end

      # What a page says in the place of what it could not read. The notice at the top has why Kafka is away.
      def explained(problem) = problem.equal?(error) ? "Not known while Kafka does not answer." : problem.message

      # The same before a whole topic is read, which waits as long as Kafka is away. So the leaders of its partitions
      # are asked something first.
      # Returns the offsets that each partition has: {0 => 20...120}.
      #: (String) -> Hash[Integer, Range[Integer]]
      def check_answers(topic)
        check_kafka
        numbers = 0...app.producer.partition_count(topic, timeout: ASK)
        first, last = %i[beginning end].map do |position|
          app.admin.offsets(numbers.to_h { |number| [[topic, number], position] }, committed: false, timeout: ASK)
        end
        numbers.to_h { |number| [number, first[[topic, number]].to_i...last[[topic, number]].to_i] }
      end

      # Did the last look at the cluster fail, or does the present one take long? A further question would wait, too.
      def away? = !error.nil? || slow?
      def slow? = !now.nil? && @looking >= SLOW

      def away_text
        return "Kafka did not answer: #{error.message.delete_suffix(".")}." if error

        "Kafka takes long to answer: #{seconds(@looking.floor)} so far."
      end

      # "DeadLetters" → view_dead_letters
      def content
        name = self.class.name[/\w+\z/].gsub(/(?<=[a-z])(?=[A-Z])/, "_").downcase
        Html.new(public_send(:"view_#{name}"))
      end

      # Can the page show nothing before Kafka has answered?
      def needs_cluster? = true

      # Does the page renew itself?
      def live? = true

      def cluster_name = now&.cluster&.brokers&.first&.then { |broker| "#{broker.host}:#{broker.port}" }

      # The entry of the menu that the page belongs to.
      def section = "/"

      def app = web.app
      def history = web.history
      def time = now&.at || Clock.wall

      # Partitions that need attention, as their processes report; see Summary#partitions.
      def troubled(group = nil)
        Reports::Summary.new(web.reports.soon, now: Clock.wall, group: group).partitions
      end

      # --- for views -------------------------------------------------------------------------------------------------

      # A path of the dashboard with a query. Without values that are nil.
      def url(path, **query)
        query = query.compact
        "#{request.base}#{path}#{"?#{URI.encode_www_form(query)}" unless query.empty?}"
      end

      def shown(text) = text.size > LONGEST ? "#{text[0, LONGEST]}…" : text
      def link(text, path, **query) = Html.tag(:a, text, href: url(path, **query))
      def group_link(id) = link(id, "/group", id: id)
      def topic_link(name) = link(name, "/topic", name: name)
      def process_link(text, id) = link(text, "/process", id: id)
      def partition_link((topic, partition)) = link("#{topic}/#{partition}", "/topic", name: topic)

      # To the messages of "orders/3" from an offset on.
      def offset_link(name, offset)
        return "–" unless offset

        topic, _, partition = name.rpartition("/")
        link(offset, "/messages", topic: topic, partition: partition, offset: offset)
      end

      def whole(number) = Numbers.whole(number)
      def short(number) = Numbers.short(number)
      def seconds(number) = Numbers.seconds(number)
      def clock(at) = Html.tag(:time, Numbers.time(at), datetime: Time.at(at).utc.strftime("%FT%TZ"))

      def plural(count, noun)
        noun += noun.end_with?("s") ? "es" : "s" unless count == 1
        "#{whole(count)} #{noun}"
      end

      def tag(...) = Html.tag(...)
      # The rows of a table that are shown, and a line about the others.
      def some(rows) = rows.first(MOST)
      def more(rows) = rows.size > MOST ? tag(:p, "… and #{whole(rows.size - MOST)} more") : nil

      # The rows of a list that goes on, at ?page=2, and the links to its other pages.
      def turned(rows) = rows.drop(first_row(rows)).first(MOST)

      def turns(rows)
        return if rows.size <= MOST

        first = first_row(rows)
        before = link("Previous", section, page: first / MOST) if first.positive?
        after = link("Next", section, page: (first / MOST) + 2) if first + MOST < rows.size
        here = "#{whole(first + 1)} to #{whole([first + MOST, rows.size].min)} of #{whole(rows.size)}"
        tag(:p, Html.join([before, here, after].compact, " "))
      end

      # The index of the first row of the page asked for. A page that does not exist is the nearest one that does.
      def first_row(rows)
        page = Integer(request[:page].to_s, 10, exception: false) || 1
        (page - 1).clamp(0, [(rows.size - 1) / MOST, 0].max) * MOST
      end

      # What the menu says beside a page, of what is known anyway: {"/groups" => [3, "with lag"]}.
      def menu_counts
        found = {}
        found["/groups"] = [now.groups.each_key.count { |id| now.lag(id).to_i.positive? }, "with lag"] if now
        found["/processes"] = [Reports::Summary.new(web.reports.known, now: Clock.wall).live.size, "running"]
        found["/errors"] = [web.reports.failures.size, "in an hour"]
        found["/dead-letters"] = [new_letters, "in an hour"]
        found.reject { |_, (count, _)| count.zero? }
      end

      # Topics with dead letters: those of the app's routes, and those whose names end in .dead.
      def letter_topics
        named = now ? now.topics.keys.grep(/\.dead\z/) : []
        [*routed_letters, *named].uniq.sort
      end

      def routed_letters = routes.each_value.flat_map { |group| group.topics.values.flat_map(&:dead_letter_topics) }

      # {"billing" => its group in the app's routes}
      def routes
        return {} if app.routes.empty?

        app.routes.groups(app.config).to_h { |group| [group.name, group] }
      rescue ConfigError # such as a group_id that is missing
        {}
      end

      # By how much the ends of their partitions grew within the last hour, so it costs no question to Kafka.
      def new_letters(topics = letter_topics)
        return 0 unless now

        topic_partitions = topics.flat_map { |name| [name].product(now.topics[name]&.partitions.to_a.map(&:number)) }
        topic_partitions.sum { |topic_partition| history.series(:end, topic_partition).growth }
      end

      # A word in a frame. kind: :good, :bad, :warn or :plain.
      def badge(text, kind = :plain) = Html.tag(:span, text, class: "badge #{kind}")

      def state(group)
        kind = { stable: :good, empty: :plain, dead: :plain }.fetch(group.state, :warn)
        badge(group.state.to_s.tr("_", " "), kind)
      end

      # The hidden fields of a form that changes something.
      def hidden(**fields)
        all = { token: request.token, back: request.here.delete_prefix(request.base), **fields.compact }
        Html.new(all.map { |name, value| %(<input type="hidden" name="#{name}" value="#{Html.of(value)}">) }.join)
      end

      # What actions on this topic or process do or did: the latest ones. The first one gets the focus after its form.
      def actions_list(topic, most = 3)
        rows = web.actions.list(topic).first(most).map.with_index do |action, at|
          progress = "#{plural(action.done, action.noun)} so far " if action.done.positive?
          state = action.result ? "#{action.result}." : "#{progress}…"
          Html.tag(:p, "#{action.text}: #{state}", class: "outcome notice #{action.failed ? "bad" : "good"}",
                                                   id: (at.zero? ? Actions::OUTCOME : nil), tabindex: -1)
        end
        Html.join(rows)
      end

      # rows: [["trace", "42"], …]
      def headers_table(rows)
        return Html.tag(:p, "No headers.", class: "empty") if rows.empty?

        lines = rows.map { |name, value| Html.join([Html.tag(:dt, name), Html.tag(:dd, Html.tag(:code, value))]) }
        Html.tag(:dl, Html.join(lines), class: "facts")
      end

      # Below a lag, what it lacks: "2 partitions without a commit"
      def uncounted(*groups)
        count = groups.sum { |id| now.uncommitted(id) }
        tag(:small, "#{plural(count, "partition")} without a commit", class: "below") if count.positive?
      end

      # How long until the group has caught up; small words if that is no time.
      def catch_up(id)
        lag = now.lag(id)
        return "–" unless lag&.positive?

        slope = history.series(:lag, id).slope(60) or return tag(:small, "measuring")
        return tag(:small, "does not shrink") unless slope.negative?

        seconds(lag / -slope)
      end
    end
  end
end
