# frozen_string_literal: true

# How blocks of docs/guides/state-in-memory.md are run: see test/support/guides.rb.
page = File.read(File.join(Guides::ROOT, "docs/guides/state-in-memory.md"))
{
  # The embedded cluster keeps a member that has left until its session is over.
  "2.times do" => {
    change: { '"localhost:9092" }' => '"localhost:9092", "session.timeout.ms" => 6000 }' }
  },
  "class ClicksConsumer" => {
    change: { "tick_every 10" => "tick_every 3600" },
    given: { "Click" => "module Click; def self.insert_all(rows) = SEEN << rows; end" },
    after: lambda do
      consumed = Thread::Queue.new
      Pelton.subscribe("consumer.consumed") { |event| event[:messages].times { consumed << true } }
      Pelton.start
      3.times { |number| Pelton.producer.produce_sync(topic: "clicks", payload: { number: number }.to_json) }
      3.times { consumed.pop }
      assert_empty SEEN
      assert Pelton.stop
      assert_equal [[0, 1, 2]], Array.new(SEEN.size) { SEEN.pop.map { |click| click["number"] } }
      reader = Pelton::Subscription.new(Pelton.config, group_id: "guide")
      assert_equal [3], reader.committed([["clicks", 0]], 60)
      reader.close(10)
    end
  },
  "class TotalsTest" => {
    change: { "require_relative" => "load", '"app"' => '"./app.rb"' },
    before: lambda do
      File.write("app.rb", page.scan(/^(?:class TotalsConsumer|Pelton.routes).*?^end$/m).first(2).join("\n"))
    end,
    after: lambda do
      TotalsTest.runnable_methods.each do |name|
        result = Minitest.run_one_method(TotalsTest, name)
        assert_predicate result, :passed?, result.failures.join
      end
      @errors.clear # the unconfirmed commit's
    end
  }
}
