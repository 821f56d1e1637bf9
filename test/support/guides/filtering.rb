# frozen_string_literal: true

{
  'where.key.starts_with("pl-")' => {
    after: lambda do
      payload = '{"type":"order.paid","total":1200,"vip":true,"customer":{"addresses":[{"country":"PL"}]}}'
      assert_equal [payload], serve({ "orders" => payload }).map(&:raw_payload)
    end
  },
  "class MailsConsumer" => {
    change: { "pause(60," => "pause(0.1," },
    given: { "MailServer" => "module MailServer; READY = [true, false, false, true, true]; " \
                             "def self.ready? = READY.shift; def self.deliver(mail) = SEEN << mail; end" },
    after: lambda do
      Pelton.routes { topic("orders", to: MailsConsumer) }
      rows = Array.new(3) { |n| { topic: "orders", partition: 0, payload: { n: n }.to_json } }
      Pelton.producer.produce_many_sync(rows)
      mails = serve({}, count: 0) { |all| all.size == 3 }
      assert_equal [0, 1, 2], mails.map { |mail| mail["n"] }
      assert_empty MailServer::READY
    end
  },
  "filter KnownCustomers" => {
    after: lambda do
      payload = '{"total":200,"customer":{"id":7}}'
      assert_equal [payload], serve({ "orders" => payload }).map(&:raw_payload)
    end
  }
}
