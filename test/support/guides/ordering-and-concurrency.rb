# frozen_string_literal: true

{
  'dig("customer", "id")' => { after: -> { serve({ "orders" => GuidesTest::PAID }) } },
  "retries :unlimited" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; def consume = raise(IOError, 'down'); end")
      retried = Thread::Queue.new
      Pelton.subscribe("consumer.retrying") { |event| retried << event[:offset] }
      Pelton.start
      [0, 7300].each do |age|
        Pelton.producer.produce_sync(topic: "orders", partition: 0, key: age.to_s, payload: "{}",
                                     timestamp: Time.now - age)
      end
      origin = read("orders.dead", 1).first.origin
      assert_equal [0, 1, 1], [retried.pop, origin.offset, origin.attempts], "retried; given up, after attempts"
      Pelton.stop
      @errors.clear
    end
  },
  "Thread.new" => {
    after: lambda do
      Pelton.start
      rows = Array.new(40) do |number|
        { topic: "invoices", partition: 0, key: (number % 10).to_s, payload: JSON.generate(total: number) }
      end
      bad = { topic: "invoices", partition: 0, key: "3", payload: "{}" }
      Pelton.producer.produce_many_sync([*rows.first(20), bad, *rows.drop(20)])
      found = read("paid", 40).map { |message| [message.key, Integer(message.raw_payload)] }
      assert_equal Array.new(40) { |number| [(number % 10).to_s, number] }, found.sort_by(&:last), "each result once"
      letter = read("invoices.dead", 1).first
      assert_equal [20, "KeyError"], [letter.origin.offset, letter.origin.error], "the bad message"
      found.group_by(&:first).each_value { |same| assert_equal same.sort_by(&:last), same, "the order of a key" }
      assert Pelton.stop
    end
  },
  "throttle 100" => {
    change: { '"reminders"' => '"orders"', "delay 600" => "delay 0.1" },
    given: { "RemindersConsumer" => "class RemindersConsumer < Pelton::Consumer; #{GuidesTest::CONSUME}; end" },
    after: -> { serve({ "orders" => GuidesTest::PAID }) }
  }
}
