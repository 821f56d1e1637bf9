# frozen_string_literal: true

require "date"
require "test_helper"
require "pelton/routing/routing"
require "support/native_kit"
require "support/where_kit"

# Filters on MessagePack: the native side drops what Ruby's own answer surely refuses, and nothing else.
class NativeMsgpackWhereTest < Minitest::Test
  include NativeKit
  include WhereKit

  Condition = Pelton::Routing::Condition

  # Values of a field "a", as hex: each kind, also those that JSON has not.
  VALUES = %w[c0 c2 c3 00 01 ff cf7fffffffffffffff cf8000000000000000 cfffffffffffffffff d38000000000000000
              ca3f800000 cb3ff8000000000000 cb7ff0000000000000 cb7ff8000000000000 cb43f0000000000000 a0 a161 a162 a2c3a9
              a1ff c400 c40161 c40162 c402c3a9 c401ff 90 9101 80 81a16201 d40161 d40162 d6ff00000001].freeze
  # Names of it: a String, bytes that are one, bytes that are none, a number, an extension.
  NAMES = %w[a161 c40161 c401ff 01 d40161].freeze
  LITERALS = ["a", "b", "é", "", 0, 1, -1, 1.0, 1.5, 2.0**64, (2**63) - 1, -(2**63), true, false, nil,
              Time.at(0), Time.at(1), Time.at(2), *WhereKit.decimals("1.5"), Date.new(1970)].freeze

  def conditions
    ordered = LITERALS.grep_v(true).grep_v(false).compact
    [[:exists, nil], [:in, LITERALS], [:matches, /a|é/], [:starts_with, ""], [:starts_with, "é"],
     *LITERALS.map { |literal| [:in, [literal]] }, *%i[gt gteq lt lteq].product(ordered)]
  end

  def test_every_kind_with_every_check
    documents = ["c0", "a161", *NAMES.product(VALUES).map { |name, value| "81#{name}#{value}" },
                 "82a16101c4016102", "82c4016102a16101", "92a16101"].map { |hex| [hex].pack("H*") }
    topic = topic_of_all([nil, "\xc1", "\x81\xa1a", *documents])
    count = documents.size + 3
    format = { format: :msgpack, ext: { 1 => ->(bytes) { bytes } } }
    messages = read_decoded(topic, count, format)
    trees = conditions.map { |check, literal| [:is, [:field, "a"], check, literal] }
    trees += [[:field, "a", 0], [:field, "a", "b"], [:field, 0]].map { |path| [:is, path, :exists, nil] }
    trees.each do |tree|
      wanted = messages.select { |message| Condition.admits?(tree, message) }.map(&:offset)
      undecided, decided = read_decoded(topic, count, format, tree.freeze).partition(&:undecided?)
      assert_equal wanted - undecided.map(&:offset), decided.map(&:offset), tree.inspect
      # Ruby compares a BigDecimal with numbers.
      limit = tree.flatten.any? { |leaf| WhereKit.decimal?(leaf) } ? count / 2 : count / 3
      assert_operator undecided.size, :<, limit, tree.inspect
    end
  end
end
