# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/web_kit"
require "pelton/dead_letters/run"

# The dashboard's pages of dead letters and its actions on letters and scheduled messages, over letters that a test
# makes. (On a real broker: test/integration/web_letters.rb.)
class WebLettersTest < Minitest::Test
  include WebKit

  TOKEN = "a" * 32
  Origin = Struct.new(:topic, :partition, :offset, # rubocop:disable Lint/StructNewOverride
                      :attempts, :redrives, :error_message, :backtrace, keyword_init: true)
  Letter = Struct.new(:place, :offset, :error, :status, :failed_at, :group, :origin, :message, :headers, :redriven_to,
                      keyword_init: true) do
    def id = place
    def time = failed_at || written_at
    def written_at = Time.at(1_750_000_000)
  end

  # Stands for DeadLetters. answer: of `redrive` and `delete`; problems: what they yield for each letter. slow: a window
  # of `within` for which the time does not suffice.
  Letters = Struct.new(:list, :calls, :answer, :problems, :slow) do
    def within(windows, done:, status:, &block)
      calls << [:within, status, windows]
      windows.each do |window|
        found = list.select { |letter| window[0].cover?(letter.offset) }
        found.select { |letter| status == :all || letter.status == status }.each(&block)
        throw :time_is_over if window == slow
        done.call
      end
    end

    def find(id) = list.find { |letter| letter.id == id }

    %i[redrive delete].each do |name|
      define_method(name) do |stop:, **filters, &block|
        calls << [name, filters, stop.class]
        problems.each { |problem| block.call(nil, problem) }
        answer.respond_to?(:call) ? answer.call : answer
      end
    end
  end

  # The time of a page ends when the letters say so.
  module EndOfTime
    class << self
      attr_accessor :on
    end

    def run(*)
      return super unless EndOfTime.on

      catch(:time_is_over) do
        yield
        true
      end || false
    end
  end

  def setup
    super
    @acting = Pelton::Web.new(@app, actions: true)
    @groups.logs[["dead", 0]] = 0...0
    counting = Object.new.tap { |producer| producer.define_singleton_method(:partition_count) { |*, **| 1 } }
    @app.define_singleton_method(:producer) { counting }
    @letters = letters = Letters.new([], [], nil, [])
    @asked = asked = []
    @app.define_singleton_method(:dead_letters) { |topic, **how| (asked << [topic, how]) && letters }
  end

  def teardown
    @acting.close
    super
  end

  def letter(number, error: "KeyError", status: :open, **facts)
    origin = Origin.new(topic: "orders", partition: 0, offset: 40 + number, attempts: 3, error_message: "no <total>")
    message = Fakes::Message.new("dead", 0, number, "payload-#{number}", key: "k")
    letter = Letter.new(place: "0/#{number}", offset: number, error: error, status: status, group: "billing",
                        headers: {}, failed_at: Time.at(1_760_000_000 + number), origin: origin, message: message,
                        **facts)
    @letters.list << letter
    log = @groups.logs[["dead", 0]]
    @groups.logs[["dead", 0]] = log.begin...[log.end, number + 1].max
    letter
  end

  def page(path = "/dead-letters", web: @acting, **query) = get(path, { topic: "dead", **query }, web: web)
  def places(page) = page.body.scan(%r{<th scope="row".*?<a [^>]*>(0/\d+)</a>}).flatten

  def post(path, **fields)
    body = StringIO.new(URI.encode_www_form({ token: TOKEN, **fields }))
    get(path, web: @acting, verb: "POST", "rack.input": body, HTTP_COOKIE: "pelton_token=#{TOKEN}")
  end

  # The result of the action that a form starts.
  def result(path, **fields)
    answer = post(path, **fields)
    assert_equal 303, answer.status, answer.body
    eventually(20) { @acting.actions.list.first.result }
    @acting.actions.list.first
  end

  # --- pages --------------------------------------------------------------------------------------------------------

  def test_open_letters_are_counted_by_error_and_the_last_to_fail_come_first
    3.times { |number| letter(number) }
    letter(3, error: "IOError")
    letter(4, status: :redriven)
    text = page.text
    assert_match(/KeyError\s+3\s+IOError\s+1/, text)
    assert_match(/Redrive 4 letters/, text)
    assert_equal %w[0/3 0/2 0/1 0/0], places(page)
    assert_equal [[:within, :open, [{ 0 => 0...5 }]]], @letters.calls.uniq
    assert_includes page.body, "no &lt;total&gt;"
  end

  def test_letters_of_an_error_and_of_a_status
    letter(0)
    letter(1, error: "IOError")
    letter(2, status: :redriven)
    letter(3, status: :deleted)
    found = [{ error: "IOError" }, { status: "redriven" }, { status: "deleted" }, { status: "all" }, { status: "x" }]
            .map { |query| places(page(**query)) }
    assert_equal [%w[0/1], %w[0/2], %w[0/3], %w[0/3 0/2 0/1 0/0], %w[0/1 0/0]], found
    assert_match(/Redrive 1 letter\b/, page(error: "IOError").text)
    assert_match(/No open letter here/, page(error: "EOFError").text)
  end

  def test_letters_can_be_handled_only_with_actions_and_if_they_are_open
    letter(0)
    letter(1, status: :redriven)
    forms = ->(shown) { shown.body.scan(%r{action="/actions/(\w+)"}).flatten.sort }
    assert_equal [%w[delete delete redrive redrive], [], []], [page, page(status: "all"), page(web: @web)].map(&forms)
    shown = ["0/0", "0/1"].map { |id| page("/dead-letter", id: id) } << page("/dead-letter", web: @web, id: "0/0")
    assert_equal [%w[delete redrive], [], []], shown.map(&forms)
  end

  # Only one letter, those with one error, or all could be redriven.
  def test_several_letters_are_selected
    3.times { |number| letter(number) }
    box = %r{<input type="checkbox" name="letter" value="(0/\d)" form="selected"}
    boxes = ->(shown) { shown.body.scan(box).flatten }
    assert_equal [%w[0/2 0/1 0/0], [], []], [page, page(status: "all"), page(web: @web)].map(&boxes)
    form = page.body[%r{<form method="post" id="selected" action="/actions/redrive">.*?</form>}m]
    assert_match(%r{name="selected" value="yes".*Redrive selected.*formaction="/actions/delete">Delete selected}, form)
    @letters.answer = answer(2)
    done = result("/actions/redrive", topic: "dead", selected: "yes", letter: %w[0/0 0/2])
    assert_equal "Redrive 0/0, 0/2 of dead", done.text
    assert_equal({ id: %w[0/0 0/2] }, @letters.calls.last[1])
    done = result("/actions/delete", topic: "dead", selected: "yes", letter: Array.new(6) { |number| "0/#{number}" })
    assert_equal "Delete 6 letters of dead", done.text
  end

  def test_a_form_without_a_selected_letter_changes_none
    letter(0)
    refused = post("/actions/delete", topic: "dead", selected: "yes")
    assert_equal [400, "letter: check the box of at least one letter"], [refused.status, refused.body.chomp]
    assert_empty @acting.actions.list
  end

  def test_a_page_has_fifty_letters
    (0...260).to_a.shuffle(random: Random.new(3)).each { |number| letter(number) }
    assert_equal (210..259).to_a.reverse.map { |number| "0/#{number}" }, places(page)
    assert_match(/Redrive 260 letters/, page.text)
  end

  # A page with ten million letters took 15 minutes.
  def test_a_page_reads_the_newest_letters_of_a_large_topic_and_says_so
    @groups.logs[["dead", 0]] = 20...10_000_020
    assert_match(/The newest 50,000 of 10,000,000 offsets were read\. .*No open letter among those/m, page.text)
    letter(10_000_000)
    assert_match(/The newest .*Redrive all letters .*Delete all letters/m, page.text)
  end

  # It showed the oldest of those that were read, and counted them.
  def test_the_newest_letters_are_there_though_the_time_does_not_suffice_for_the_others
    [500, 5500, 5900].each { |number| letter(number) }
    @letters.slow = { 0 => 901...4901 }
    shown = with_end_of_time { page }
    assert_equal %w[0/5900 0/5500], places(shown)
    assert_match(/took longer than 10 s\. The newest 1,000 of 5,901 offsets were read\. Older letters/, shown.text)
    assert_match(/KeyError\s+2 .*Redrive all letters/m, shown.text)
    assert_equal [{ 0 => 4901...5901 }, { 0 => 901...4901 }, { 0 => 0...901 }], @letters.calls.last.last.first(3)
  end

  def with_end_of_time
    Pelton::Web::TimeLimit.singleton_class.prepend(EndOfTime)
    EndOfTime.on = true
    yield
  ensure
    EndOfTime.on = false
  end

  # It showed none of them.
  def test_a_part_of_the_newest_letters_is_shown_if_the_time_does_not_suffice_for_them
    [500, 5500, 5900].each { |number| letter(number) }
    @letters.slow = { 0 => 4901...5901 }
    shown = with_end_of_time { page }
    assert_equal %w[0/5900 0/5500], places(shown)
    assert_match(/took longer than 10 s\. A part of the newest 1,000 offsets was read\. Letters are missing here, also/,
                 shown.text)
    assert_match(/KeyError\s+2 .*Redrive all letters/m, shown.text)
    refute_match(/role="alert"/, shown.body)
    @letters.list.clear
    assert_match(/took longer than 10 s, so letters are missing here\. .*No open letter among those/m,
                 with_end_of_time { page }.text)
  end

  # It showed only the error.
  def test_letters_that_were_read_before_an_error_are_shown
    letter(7)
    failure = Pelton::KafkaError.new(-185, :_TIMED_OUT, "no answer")
    @letters.define_singleton_method(:within) { |*, **, &block| list.each(&block) && raise(failure) }
    shown = page
    assert_equal %w[0/7], places(shown)
    assert_match(/no answer \(_TIMED_OUT, -185\)\. A part of the newest 8 offsets was read/, shown.text)
  end

  def test_a_letter_links_to_its_origin_and_its_group
    letter(7)
    [page, page("/dead-letter", id: "0/7")].map(&:body).each do |html|
      assert_includes html, '<a href="/message?topic=orders&amp;partition=0&amp;offset=47">orders/0 offset 47</a>'
      assert_includes html, '<a href="/group?id=billing">billing</a>'
    end
  end

  # The time at which another system wrote it was the time of the failure.
  def test_a_letter_of_another_system_has_no_time_of_a_failure
    letter(7, failed_at: nil, error: nil)
    letter(8)
    [["0/7", ["Written"]], ["0/8", ["Failed"]]].each do |id, names|
      assert_equal names, page("/dead-letter", id: id).body.scan(/>(Failed|Written)</).flatten
    end
    assert_includes page.body, '<td data-label="Failed">–</td>'
  end

  def test_letters_lead_to_what_processes_reported_of_their_error
    letter(7)
    letter(8, error: "IOError")
    refute_match(/of the last hour/, page.text)
    row = { at: Pelton::Clock.wall - 5, source: "s", class: "KeyError", message: "m", group: "billing",
            topic: "orders" }
    @acting.reports.add(report(errors: [row]))
    link = %r{<a href="(/error\?id=\h+)">[\w ]*failures of the last hour</a>}
    shown = [page, *%w[0/7 0/8].map { |id| page("/dead-letter", id: id) }]
    found = shown.map { |answer| answer.body.scan(link) }
    assert_equal [1, 1, 0], found.map(&:size)
    assert_equal 1, found.flatten.uniq.size
    @acting.reports.add(report(pid: 2, errors: [{ **row, group: "audit" }]))
    assert_includes page.body, '<a href="/errors?error=KeyError">failures of the last hour</a>'
    assert_equal found[1], page("/dead-letter", id: "0/7").body.scan(link)
  end

  def test_a_reading_ends_when_its_time_is_over
    ended = Thread::Queue.new
    done = []
    in_time = nil
    [0.05, 1, 10].each do |limit| # its thread may not even have begun
      next unless done.empty?

      in_time = Pelton::Web::TimeLimit.run(limit) do
        done << 1
        Thread::Queue.new.pop
      ensure
        ended << true
      end
    end
    assert_equal [false, true, [1]], [in_time, ended.pop(true), done]
    assert Pelton::Web::TimeLimit.run(20) { done << 2 }
    assert_raises(Pelton::ClosedError) { Pelton::Web::TimeLimit.run(20) { raise Pelton::ClosedError, "x" } }
  end

  def test_an_error_while_letters_are_read_is_on_the_page
    failure = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no topic")
    @letters.define_singleton_method(:within) { |*, **| raise failure }
    problem = page.body[%r{<p class="notice bad" role="alert">(.*?)</p>}, 1]
    assert_includes problem, "no topic (UNKNOWN_TOPIC_OR_PART, 3)"
  end

  # The reading would wait as long as Kafka does.
  def test_letters_are_not_read_while_their_partitions_do_not_answer
    letter(0)
    @answers[:offsets] = ->(*) { raise Pelton::KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out") }
    assert_match(/Timed out/, page.text)
    answer = page("/dead-letter", id: "0/0")
    assert_equal 503, answer.status
    assert_match(/Not known .*Timed out/m, answer.text)
    assert_empty @letters.calls
  end

  def test_a_letter_has_its_error_its_way_and_its_contents
    letter(7, redriven_to: "orders").origin.backtrace = %w[a.rb:1 b.rb:2]
    text = page("/dead-letter", id: "0/7").text
    ["Dead letter 0/7", "Origin orders/0 offset 47", "Attempts 3", "Group billing", "Redriven to orders", "Key k",
     "KeyError: no <total>", "a.rb:1\nb.rb:2", "payload-7"].each { |part| assert_includes text, part }
    assert_equal [404, 404], [page("/dead-letter", id: "0/8").status, page("/dead-letter").status]
  end

  # --- actions ------------------------------------------------------------------------------------------------------

  def answer(handled, skipped = {}, stopped_at = nil)
    Pelton::DeadLetters::Result.new(handled: handled, skipped: skipped, stopped_at: stopped_at)
  end

  # Nothing renewed the page, so it said "so far" until its reader reloaded it.
  def test_a_page_that_is_made_while_an_action_ends_renews_itself
    gate = Thread::Queue.new
    @letters.answer = -> { gate.pop }
    letter(0)
    post("/actions/redrive", topic: "dead")
    ending = -> { gate.push(answer(1)) && eventually(20) { !@acting.actions.running? } }
    @letters.define_singleton_method(:within) { |*, **| ending.call }
    body = page.body
    assert_match(/id="live".*Redrive all letters of dead: …/m, body)
    assert_match(/id="content".*Redrive all letters of dead: 1 done\./m, page.body)
  end

  def test_letters_are_redriven_and_deleted_and_each_is_counted
    @letters.problems = [nil, nil, "refused", nil]
    @letters.answer = answer(3, { "it was refused" => 1 }, "0/9")
    done = result("/actions/redrive", topic: "dead")
    assert_equal ["Redrive all letters of dead", 3, "3 done; 1 skipped: it was refused; stopped before 0/9", nil],
                 [done.text, done.done, done.result, done.failed]
    @letters.answer = answer(3)
    done = result("/actions/delete", topic: "dead", error: "KeyError", id: "0/1")
    assert_equal ["Delete KeyError, 0/1 of dead", "3 done"], [done.text, done.result]
    assert_equal [[:redrive, {}, Pelton::Background::Stop],
                  [:delete, { error: "KeyError", id: "0/1" }, Pelton::Background::Stop]], @letters.calls
  end

  def test_letters_are_decoded_as_their_route_says
    consumer = Class.new(Pelton::Consumer) { define_method(:consume) { nil } }
    decoder = ->(message) { message.raw_payload }
    @app.config.group_id = "g"
    @app.routes { topic("dead", to: consumer) { deserializer decoder } }
    letter(0)
    page
    assert_equal ["dead", { decode: nil, deserializer: decoder }], @asked.last
  end

  def test_an_action_that_raises_has_failed
    @letters.answer = -> { raise Pelton::ConfigError.new("topic", "dead", "is read-only") }
    done = result("/actions/redrive", topic: "dead")
    assert_equal ["topic = \"dead\": is read-only", true], [done.result, done.failed]
  end

  def test_the_last_twenty_actions_are_remembered_newest_first
    @letters.answer = answer(0)
    22.times { |number| result("/actions/redrive", topic: "dead-#{number}") }
    topics = @acting.actions.list.map(&:topic)
    assert_equal (2..21).to_a.reverse.map { |number| "dead-#{number}" }, topics
    assert_equal ["dead-7"], @acting.actions.list("dead-7").map(&:topic)
    refute @acting.actions.running?
  end

  def test_a_close_asks_a_running_action_to_end
    asked = Thread::Queue.new
    ended = Thread::Queue.new
    @letters.define_singleton_method(:redrive) do |stop:|
      asked << stop
      stop.wait(60)
      ended << stop.stop?
      Pelton::DeadLetters::Result.new(handled: 1, skipped: {})
    end
    post("/actions/redrive", topic: "dead")
    asked.pop
    assert @acting.actions.running?("dead")
    refute @acting.actions.running?("other")
    @acting.close
    assert_equal [true, "1 done"], [ended.pop, @acting.actions.list.first.result]
  end

  def test_scheduled_messages_are_sent_now_or_canceled
    calls = []
    found = true
    schedule = Object.new
    schedule.define_singleton_method(:cancel) { |id| (calls << [:cancel, id]) && found }
    schedule.define_singleton_method(:reschedule) { |id, **when_| (calls << [:reschedule, id, when_]) && found }
    @app.define_singleton_method(:schedule) { schedule }
    @app.config.schedule_topic = "later"
    ways = %w[cancel send].map { |name| result("/actions/#{name}", id: "r-7") }
    found = nil
    ways << result("/actions/send", id: "r-8")
    assert_equal [["Cancel r-7", "canceled"], ["Send r-7", "a server sends it now"],
                  ["Send r-8", "no message waits under this id"]], (ways.map { |action| [action.text, action.result] })
    assert_equal [[:cancel, "r-7"], [:reschedule, "r-7", { in: 0 }], [:reschedule, "r-8", { in: 0 }]], calls
    assert_equal ["later"], ways.map(&:topic).uniq
    assert_equal [400, "id: is missing"], [post("/actions/cancel").status, post("/actions/send").body[/id: is missing/]]
    refused = post("/actions/delete")
    assert_equal [400, "topic: is missing"], [refused.status, refused.body[/topic: is missing/]]
  end
end
