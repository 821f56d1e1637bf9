# frozen_string_literal: true

# How blocks of docs/guides/topics-as-code.md are run: see test/support/guides.rb.
declared = -> { Pelton.topics.clusters.flat_map { |cluster| cluster.topics.keys }.sort }
{
  'topic "payments", partitions: 6' => { after: -> { assert_equal %w[orders payments], declared.call } },
  "creates partitions: 12" => {
    after: -> { assert_equal %w[orders orders.dead orders.retry.60 orders.retry.600], declared.call }
  },
  "retry_topics partitions: 3" => { after: -> { assert_equal %w[clicks], declared.call } },
  "deleted" => { after: -> { assert_equal %w[orders.old], declared.call } },
  "plan.apply" => { not_run: "the embedded cluster has no controller; test/integration/topics.rb runs it" }
}
