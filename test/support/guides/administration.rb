# frozen_string_literal: true

# How blocks of docs/guides/administration.md are run: see test/support/guides.rb.
broker = "the embedded cluster has no controller; test/integration/admin.rb runs it"
{
  'admin.create_topic("orders"' => { not_run: broker },
  "admin.create_partitions" => { not_run: broker },
  "kafka:topics" => { not_run: "a rake task, for a real broker" }
}
