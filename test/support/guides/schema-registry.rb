# frozen_string_literal: true

# How the blocks of docs/guides/schema-registry.md are run: see test/support/guides.rb.
{
  'Dir["schemas/*.avsc"]' => {
    before: lambda do
      File.write("schemas/orders-value.avsc", '{ "type": "record", "name": "Order", "fields": [] }')
      FileUtils.mkdir_p("schemas/readers")
      File.write("schemas/readers/orders.avsc", '{ "type": "record", "name": "Order", "fields": [] }')
    end,
    after: -> { assert_equal ["POST /subjects/orders-value/versions"], @registry.requests }
  }
}
