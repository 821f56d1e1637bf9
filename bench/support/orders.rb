# frozen_string_literal: true

require "json"

# Events about orders as a shop might write them: nested, all of JSON's types, escapes and other alphabets now and then.
# The same seed gives the same documents. One in RARE is sent by drone. For the benches and the demo.
class Orders
  RARE = 200
  TYPES = %w[order.created order.paid order.shipped order.cancelled].freeze
  METHODS = %w[post courier pickup].freeze
  CITIES = ["Zürich", "São Paulo", "東京", "Berlin", "Kraków", "New York"].freeze
  NAMES = ["Ada Byron", "Łukasz Woźniak", "José Núñez", "Mia \"Mimi\" Wu", "山田 花子", "Sean O'Neil"].freeze
  WORDS = %w[lamp table chair green oak steel small folding outdoor classic soft cotton linen glass round].freeze

  # The same as Avro.
  def self.fields(**types) = types.map { |name, type| { name: name, type: type } }
  private_class_method :fields
  NOTE = %w[null string].freeze
  SCHEMA = JSON.generate(
    type: :record, name: "Order", fields: fields(
      id: :string, type: :string, version: :int, created_at: :string, timestamp: :long,
      customer: { type: :record, name: "Customer", fields: fields(
        id: :int, name: :string, city: :string, email: :string, score: :double, loyal: :boolean, referrer: NOTE
      ) },
      total: :double, currency: :string,
      lines: { type: :array, items: { type: :record, name: "Line", fields: fields(
        sku: :string, title: :string, quantity: :int, price: :double, tax: :double, gift: :boolean,
        tags: { type: :array, items: :string }, note: NOTE
      ) } },
      shipping: { type: :record, name: "Shipping", fields: fields(method: :string, country: :string, days: :int) }
    )
  ).freeze

  # bytes: about the size of each document. description: so many characters of text, about, in each of an order's lines
  # (SCHEMA has none).
  #: (?seed: Integer, ?bytes: Integer, ?description: Integer?) -> void
  def initialize(seed: 1, bytes: 5_000, description: nil)
    @random = Random.new(seed)
    @bytes = bytes
    @described = description && (description / 6)
    @count = 0
  end

  # Is this value of "shipping" → "method" that of a rare one?
  #: (untyped) -> bool
  def self.rare?(method) = method == "drone"

  # How many rare ones are among the first `count`.
  #: (Integer) -> Integer
  def self.rare_of(count) = (count + (RARE / 2) - 1) / RARE

  # The next document.
  #: () -> String
  def next
    number = @count
    @count += 1
    head = JSON.generate(head(number)).chop
    lines = []
    size = head.bytesize + 120
    while size < @bytes
      lines << JSON.generate(@described ? { **line, description: words(@described) } : line)
      size += lines.last.bytesize + 1
    end
    %(#{head},"lines":[#{lines.join(",")}],"shipping":#{JSON.generate(shipping(number))}})
  end

  private

  def head(number)
    { id: format("%<number>08x-7c1e-4d0a-9b1f-%<random>012x", number: number, random: @random.rand(1 << 48)),
      type: pick(TYPES), version: 3, created_at: "2026-03-#{format("%02d", 1 + (number % 28))}T10:20:30.125Z",
      timestamp: 1_772_000_000_000 + number,
      customer: { id: @random.rand(1_000_000), name: pick(NAMES), city: pick(CITIES), email: "c#{number}@example.com",
                  score: @random.rand.round(6), loyal: @random.rand < 0.3, referrer: nil },
      total: @random.rand(10.0..2000.0).round(2), currency: "EUR" }
  end

  def line
    { sku: "SKU-#{@random.rand(1_000_000)}", title: words(4),
      quantity: 1 + @random.rand(9), price: @random.rand(500.0).round(2), tax: 0.19, gift: @random.rand < 0.2,
      tags: [pick(WORDS), pick(WORDS)], note: @random.rand < 0.1 ? "leave at the door\nring twice" : nil }
  end

  def shipping(number)
    { method: number % RARE == RARE / 2 ? "drone" : pick(METHODS), country: "DE", days: 1 + @random.rand(5) }
  end

  def words(count) = Array.new(count) { pick(WORDS) }.join(" ")
  def pick(list) = list[@random.rand(list.size)]
end
