# frozen_string_literal: true

{
  'where.key.starts_with("pl-")' => {
    after: lambda do
      payload = '{"type":"order.paid","total":1200,"vip":true,"customer":{"addresses":[{"country":"PL"}]}}'
      assert_equal [payload], serve({ "orders" => payload }).map(&:raw_payload)
    end
  },
  "filter KnownCustomers" => {
    after: lambda do
      payload = '{"total":200,"customer":{"id":7}}'
      assert_equal [payload], serve({ "orders" => payload }).map(&:raw_payload)
    end
  }
}
