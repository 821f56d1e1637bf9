# frozen_string_literal: true

# The Ruby in the pages for users: each ```ruby block by itself.
module Guides
  ROOT = File.expand_path("../..", __dir__)

  # page: "docs/producing.md"; line: where its code begins there.
  Snippet = Struct.new(:page, :line, :code) do
    # "docs/producing.md:4 producer = Pelton.producer"
    def name = "#{page}:#{line} #{code.lines.first.strip[0, 60]}"
    def path = File.join(ROOT, page)
  end

  #: () -> Array[Snippet]
  def self.all
    Dir.glob(["*.md", "docs/**/*.md", "bench/*.md"], base: ROOT).sort.flat_map do |page|
      text = File.read(File.join(ROOT, page))
      text.to_enum(:scan, /^```ruby\n(.*?)^```$/m).map do
        found = Regexp.last_match
        Snippet.new(page, found.pre_match.count("\n") + 2, found[1])
      end
    end
  end

  # The one of a page in which there are these words.
  #: (String, String) -> Snippet
  def self.find(page, words)
    found = all.select { |snippet| snippet.page == page && snippet.code.include?(words) }
    found.size == 1 ? found.first : raise("#{page} has #{found.size} blocks with #{words.inspect}")
  end
end
