# frozen_string_literal: true

# How blocks of docs/guides/state-in-memory.md are run: see test/support/guides.rb.
page = File.read(File.join(Guides::ROOT, "docs/guides/state-in-memory.md"))
{
  # The embedded cluster keeps a member that has left until its session is over.
  "2.times do" => {
    change: { '"localhost:9092" }' => '"localhost:9092", "session.timeout.ms" => 6000 }' }
  },
  "class TotalsTest" => {
    change: { "require_relative" => "load", '"app"' => '"./app.rb"' },
    before: lambda do
      File.write("app.rb", page.scan(/^(?:class TotalsConsumer|Pelton.routes).*?^end$/m).join("\n"))
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
