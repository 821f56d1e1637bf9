# frozen_string_literal: true

require "json"

# A stream of order-like events as JSON, the same for the same seed: nested, of about the size asked for, some with text
# that needs escaping. For the demo and the benches.
#
#   OrderEvents.new(seed: 1).first(2) # => ['{"id":"o-0000001","type":"order.created",…', …]
class OrderEvents
  include Enumerable

  TYPES = %w[order.created order.paid order.shipped order.cancelled].freeze
  CITIES = ["Zürich", "São Paulo", "東京", "Berlin", "Kraków", "New York"].freeze
  ITEMS = ["Espresso \"Forte\"", "Filter papers", "Grinder\nburrs", "Mug / large", "Milk jug"].freeze

  # bytes: the size of an event, about.
  #: (?seed: Integer, ?bytes: Integer) -> void
  def initialize(seed: 1, bytes: 1_000)
    @seed = seed
    @lines = [(bytes - 330) / 96, 1].max
  end

  # Never ends.
  def each
    random = Random.new(@seed)
    (1..).each { |number| yield JSON.generate(event(number, random)) }
  end

  private

  def event(number, random)
    lines = Array.new(@lines) { |index| line(index, random) }
    {
      id: format("o-%07d", number), type: TYPES[random.rand(4)], version: 3, at: 1_760_000_000 + number,
      customer: { id: random.rand(1_000_000), name: "Customer #{number}", vip: random.rand(10).zero?,
                  address: address(random) },
      lines: lines, total: lines.sum { |line| line[:price] }.round(2), currency: "EUR", note: nil
    }
  end

  def line(index, random)
    { sku: format("sku-%06d", random.rand(1_000_000)), name: ITEMS[random.rand(5)], quantity: 1 + random.rand(5),
      price: (random.rand * 100).round(2), gift: index.zero?, tags: %w[coffee sale].first(random.rand(3)) }
  end

  def address(random)
    { city: CITIES[random.rand(6)], zip: format("%05d", random.rand(100_000)),
      geo: [(random.rand * 180).round(6), (random.rand * 360).round(6)] }
  end
end
