# frozen_string_literal: true

require "tsort"
require_relative "rust_source"

# What the tests of the sources share.
module House
  ROOT = File.expand_path("../..", __dir__)

  def self.glob(*patterns) = Dir.glob(patterns, base: ROOT).grep_v(%r{(\A|/)target/}).sort

  RUST = glob("ext/*/src/**/*.rs").freeze

  def assert_none(problems)
    assert problems.empty?, "#{problems.size} broken rule(s):\n  #{problems.join("\n  ")}"
  end

  def read(path) = File.read(File.join(ROOT, path))

  def code_of(path) = RustSource.code(read(path))

  def cycles(graph)
    each_node = ->(&block) { graph.each_key(&block) }
    each_child = ->(node, &block) { graph.fetch(node).each(&block) }
    TSort.strongly_connected_components(each_node, each_child).select { |group| group.size > 1 }
  end
end
