# frozen_string_literal: true

require "test_helper"
require "pelton/events"
require "ripper"

# The table of events is what the code publishes: every name, every key, nothing else.
class EventsTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  # A call of `publish`: the event's name, the keys that are written out, and whether there are others (**facts).
  Call = Struct.new(:place, :name, :keys, :more)

  # All of them in a file. A name may stand in a constant of the same file.
  class Reader
    def initialize(path)
      @path = path
      @text = File.read(File.join(ROOT, path))
      @calls = []
    end

    def calls
      walk(Ripper.sexp(@text))
      @calls
    end

    private

    def walk(node)
      return unless node.is_a?(Array)

      note(node[1], node[2]) if node[0] == :method_add_arg || node[0] == :command_call
      node.each { |child| walk(child) }
    end

    def note(target, arguments)
      name = target.is_a?(Array) && target.flatten.each_cons(2).select { |kind, _| kind == :@ident }.last
      return unless name && name[1] == "publish"

      first, hash = list(arguments)
      event = first && event_name(first)
      return unless event

      line = target.flatten.grep(Integer).first
      @calls << Call.new("#{@path}:#{line}", event, labels(hash), splat?(hash))
    end

    # The arguments between the parentheses.
    def list(node)
      node = node[1] while node.is_a?(Array) && %i[arg_paren args_add_block].include?(node[0])
      node.is_a?(Array) ? node : []
    end

    def event_name(node)
      case node
      in [:string_literal, [:string_content, [:@tstring_content, String => text, _]]] then text
      in [:var_ref, [:@const, String => name, _]] then @text[/^\s*#{name} = "([\w.]+)"/, 1]
      else nil
      end
    end

    def labels(node) = pairs(node).filter_map { |pair| pair[1][1].chomp(":").to_sym if pair[0] == :assoc_new }
    def splat?(node) = pairs(node).any? { |pair| pair[0] == :assoc_splat }
    def pairs(node) = node.is_a?(Array) && node[0] == :bare_assoc_hash ? node[1] : []
  end

  CALLS = Dir.glob("lib/**/*.rb", base: ROOT).sort.flat_map { |path| Reader.new(path).calls }.freeze

  def test_calls_are_found
    total = Dir.glob("lib/**/*.rb", base: ROOT).sum do |path|
      File.read(File.join(ROOT, path)).scan(/bus\.publish\(/).size
    end
    found = CALLS.size
    assert_operator found, :>=, total, CALLS.map(&:place)
  end

  def test_every_published_event_is_in_the_table
    CALLS.each do |call|
      assert_includes Pelton::Events::TABLE.keys, call.name, call.place
      assert_empty call.keys - Pelton::Events::TABLE.fetch(call.name).keys, "#{call.place} #{call.name}: unknown keys"
    end
  end

  def test_every_event_in_the_table_is_published
    assert_empty Pelton::Events::TABLE.keys - CALLS.map(&:name)
  end

  def test_each_key_in_the_table_has_a_meaning
    Pelton::Events::TABLE.each_value do |kind|
      assert_empty kind.keys - kind.notes.keys - Pelton::Events::COMMON.keys, kind.name
      assert_empty kind.notes.keys - kind.keys, kind.name
    end
  end

  # Where no call has facts of its own (**facts), the keys in the table are those that somebody writes.
  def test_each_key_in_the_table_is_given
    CALLS.group_by(&:name).each do |name, calls|
      next if calls.any?(&:more)

      assert_equal Pelton::Events::TABLE.fetch(name).keys.sort, calls.flat_map(&:keys).uniq.sort, name
    end
  end
end
