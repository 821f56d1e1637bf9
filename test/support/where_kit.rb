# frozen_string_literal: true

begin
  require "bigdecimal"
rescue LoadError
  nil # a gem from Ruby 3.4 on
end

# Filters as routes make them, and what a subscription delivers through them. Needs NativeKit.
module WhereKit
  # The BigDecimals of these texts; none where the gem is missing.
  def self.decimals(*texts) = defined?(::BigDecimal) ? texts.map { |text| BigDecimal(text) } : []
  def self.decimal?(value) = defined?(::BigDecimal) && value.is_a?(::BigDecimal)

  # As routing makes it of the words in a topic's block.
  def tree_of(&words)
    topic = Pelton::Routing::TopicWords.new("t")
    topic.instance_exec(&words)
    topic.settings[:where]
  end

  # The messages that come of that many in a topic, whatever was dropped.
  def read_decoded(topic, count, format, tree = nil)
    reader = subscription({}, { prefetch_batches: 1000, prefetch_bytes: 1 << 30, decode: { "*" => format },
                                where: { topic => tree } })
    reader.assign([[topic, 0, 0]])
    batches = []
    eventually(20, "#{count} messages") do
      kind, what = reader.poll(0.2)
      batches << what if kind == :batch
      batches.sum { |batch| batch.size + batch.dropped } >= count
    end
    batches.flat_map(&:messages)
  ensure
    reader&.close(5)
  end
end
