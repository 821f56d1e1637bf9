# frozen_string_literal: true

# How the blocks of docs/guides/scheduling.md are run: see test/support/guides.rb.
scheduling = lambda do
  Pelton.config.schedule_topic = "pelton.schedule"
  @cluster.create_topic("pelton.schedule", 3)
  set(:id, "reminder-7")
end
{
  'recurring "cleanup"' => {
    before: scheduling,
    after: lambda do
      @cluster.create_topic("jobs", 1)
      Pelton.start
      eventually(20) { Pelton.schedule.map(&:id).sort == %w[@recurring/guide/cleanup @recurring/guide/report] }
    end
  },
  "id = Pelton.producer.produce_later" => {
    before: scheduling,
    after: -> { assert_equal ["7"], Pelton.schedule.map(&:key) }
  },
  "Pelton.schedule.cancel(id)" => {
    before: lambda do
      instance_exec(&scheduling)
      Pelton.producer.produce_later(topic: "mails", payload: "x", in: 3600, id: "reminder-7")
    end,
    after: -> { assert_empty Pelton.schedule.to_a }
  },
  'in: 90, id: "reminder-7"' => {
    before: scheduling,
    after: -> { assert_equal ["reminder-7"], Pelton.schedule.map(&:id) }
  },
  "travel 3600" => { not_run: "is a part of a test; test/native/testing_schedule_test.rb runs one like it" }
}
