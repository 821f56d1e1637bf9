# frozen_string_literal: true

# The pages for users, and the Ruby in them: each ```ruby block by itself. test/embedded/guides_test.rb runs them beside
# an embedded cluster, and compares what they print with the ```text block below them. A guide docs/guides/x.md may have
# a file test/support/guides/x.rb, a Hash {words of a block => how it is run}:
#   { "Pelton.each" => { before: -> { fill("orders", 110) }, after: -> { read("orders", 440) } } }
module Guides
  ROOT = File.expand_path("../..", __dir__)
  # ["README.md", "docs/guides/testing.md", …]
  PAGES = Dir.glob(%w[README.md docs/guides/*.md], base: ROOT).sort.freeze

  # The output below a block: directly, or after one line such as "It prints:".
  OUTPUT = /\A\s*(?:[^\n`]*prints[^\n`]*:\s*\n+)?^```text\n(.*?)^```$/m

  # page: "docs/guides/producing.md"; line: where its code begins there; output: what the page says it prints, or nil.
  Snippet = Struct.new(:page, :line, :code, :output) do
    # "docs/guides/producing.md:4 producer = Pelton.producer"
    def name = "#{page}:#{line} #{code.lines.first.strip[0, 60]}"
    def path = File.join(ROOT, page)
  end

  #: () -> Array[Snippet]
  def self.all
    Dir.glob(["*.md", "docs/**/*.md", "bench/*.md"], base: ROOT).sort.flat_map do |page|
      text = File.read(File.join(ROOT, page))
      text.to_enum(:scan, /^```ruby\n(.*?)^```$/m).map do
        found = Regexp.last_match
        Snippet.new(page, found.pre_match.count("\n") + 2, found[1], found.post_match[OUTPUT, 1])
      end
    end
  end

  # The block of a page that contains these words.
  #: (String, String) -> Snippet
  def self.find(page, words)
    found = all.select { |snippet| snippet.page == page && snippet.code.include?(words) }
    found.size == 1 ? found.first : raise("#{page} has #{found.size} blocks with #{words.inspect}")
  end
end
