# frozen_string_literal: true

# How the blocks of docs/guides/inbox.md are run: see test/support/guides.rb. test/native/inbox_test.rb and
# test/integration/transfers.rb have the same consumers with a database.
base = { "ApplicationConsumer" => "class ApplicationConsumer < Pelton::Consumer; end" }
included = lambda do |name|
  -> { assert_includes Object.const_get(name).private_instance_methods, :processed_once }
end
{
  "class PaymentsConsumer" => { given: base, after: included.("PaymentsConsumer") },
  "class TransfersConsumer" => { given: base, after: included.("TransfersConsumer") },
  "class ReceiptsConsumer" => { given: base, after: included.("ReceiptsConsumer") },
  "Pelton::Inbox.prune_with_server" => { not_run: "needs a database; test/integration/transfers.rb has this line" }
}
