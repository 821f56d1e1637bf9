# frozen_string_literal: true

# How the blocks of docs/guides/coming-from-racecar.md are run: see test/support/guides.rb.
{
  "Racecar::Consumer" => { not_run: "is Racecar's" },
  "class UserBanConsumer < Pelton::Consumer" => {
    given: { "producer" => "" }, # the consumer's own
    before: -> { %w[user_banned audit].each { |name| @cluster.create_topic(name, 1) } },
    after: lambda do
      Pelton.start
      Pelton.producer.produce_sync(topic: "user_banned", payload: '{"user_id":7}')
      message = read("audit", 1).first
      assert_equal ["banned: 7\n", "7", '{"id":7}'], [$stdout.string, message.key, message.raw_payload]
    end
  }
}
