# frozen_string_literal: true

require "support/scenario"
require "pelton/web"

# A broker freezes after a page of the dashboard has begun to read: dead letters, one letter, the schedule, one job,
# messages, a search. The page answers all the same, says what is missing, and is whole again once the broker goes on.
#
# once: it waits for limits of time, whatever the Ruby
# first: it takes more than a minute, in which others can run

# Freezes the broker before a page's next client begins to read. The dashboard's other threads read, too.
module FreezeOnce
  PAGES = [nil, "pelton.web.reading"].freeze # names of threads

  class << self
    attr_accessor :action
  end

  def assign(...)
    if PAGES.include?(Thread.current.name)
      action = FreezeOnce.action
      FreezeOnce.action = nil
      action&.call
    end
    super
  end
end
Pelton::Subscription.prepend(FreezeOnce)

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  broker.create_topics("orders" => 1, "orders.dead" => 1, "schedule" => 1)
  all = app(schedule_topic: "schedule", serve_schedule: false)
  all.producer.produce_many_sync([{ topic: "orders", key: "k1", payload: "first" },
                                  { topic: "orders.dead", payload: "bad" }])
  all.producer.produce_later(topic: "orders", payload: "later", id: "one", in: 3600)
  web = Pelton::Web.new(all)
  get = lambda do |path, query|
    status, _, body = web.call({ "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "REMOTE_ADDR" => "127.0.0.1",
                                 "QUERY_STRING" => URI.encode_www_form(query), "HTTP_HOST" => "localhost",
                                 "SCRIPT_NAME" => "" })
    [status, body.join.gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")]
  end
  # {[path, query] => [what a whole page says, status and text of one that could not read]}
  pages = {
    ["/dead-letters", { topic: "orders.dead" }] =>
      ["unknown 1 ", 200, /Kafka took longer than 10 s, so letters are missing here/],
    ["/dead-letter", { topic: "orders.dead", id: "0/0" }] => ["bad", 503, /not found within 10 s/],
    ["/jobs", {}] => ["1 message: orders 1.", 200, /schedule was not read within 10 s/],
    ["/job", { id: "one" }] => ["later", 503, /not found within 10 s/],
    ["/messages", { topic: "orders" }] => ["1 message, newest first.", 200, /No message was read in time/],
    ["/message", { topic: "orders", partition: 0, offset: 0 }] =>
      ["first", 503, %r{reading orders/0 offset 0 not finished}],
    ["/download", { topic: "orders", partition: 0, offset: 0 }] =>
      ["first", 503, %r{reading orders/0 offset 0 not finished}],
    ["/search", { text: "first", in: "payloads" }] => ["1 message in ", 200, /Not all of it was read: 10 s were over/]
  }
  pages.each do |(path, query), (whole, status, missing)|
    shows = -> { get.call(path, query).then { |code, text| code == 200 && text.include?(whole) } }
    eventually(60, -> { get.call(path, query) }, &shows)
    FreezeOnce.action = -> { broker.kill(:STOP) }
    answer = nil
    asking = Thread.new { answer = get.call(path, query) }
    eventually(90, "#{path} answers") { asking.join(0.1) }
    check(FreezeOnce.action.nil?, "#{path} did not begin to read: #{answer}")
    equal(status, answer.first, path)
    check(answer.last.match?(missing), "#{path}: #{answer.last}")
    broker.kill(:CONT)
    eventually(60, -> { get.call(path, query) }, &shows)
  end
  equal([], events(all, "error.occurred").reject { |event| event[:error].is_a?(Pelton::KafkaError) }, "errors")
  web.close
end
