# frozen_string_literal: true

# once: the pages are the same for each Ruby

require "erb"
require "test_helper"
require "support/prose"

# The pages read easily: short sentences, short pages, no phrases that have to be decoded. A decision begins with a
# summary of a few lines.
class ProseTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGES = Dir.glob(%w[README.md CHANGELOG.md CONTRIBUTING.md PROJECT_RULES.md SECURITY.md bench/README.md test/README.md
                      docs/*.md docs/{decisions,guides,internals,reference}/*.md], base: ROOT).freeze
  DECISIONS = Dir.glob("docs/decisions/*.md", base: ROOT).freeze
  SUMMARY_LINES = 5
  README_LINES = 150
  # Of a version in the changelog, and lines of one of them.
  CHANGES = 40
  CHANGE_LINES = 3

  PAGES.each do |page|
    define_method("test_#{page}_has_short_sentences_and_no_retired_phrase") do
      limit = Prose::GUIDE if page.start_with?("docs/guides/")
      assert_empty Prose.new(read(page)).problems(limit: limit), "#{page}:"
    end
  end

  DECISIONS.each do |page|
    define_method("test_#{page}_begins_with_question_answer_and_consequence") do
      head = read(page)[/\A# \d{4} [A-Z].+\n\n((?:- .+\n)+)\n/, 1]
      assert head, "#{page}: a title with its number, then a list, an item a line"
      assert_includes 3..SUMMARY_LINES, head.lines.size, page
      assert_operator head.lines.map(&:size).max, :<=, 121, page
      %w[Question Answer Consequence].each { |word| assert_match(/^- #{word}: /, head, page) }
    end
  end

  # A rule in bold, then why, and what follows for the code.
  def test_each_non_obvious_entry_has_a_rule_its_reason_and_its_consequence
    entries = read("docs/internals/non-obvious.md").split(/^## /).drop(1).flat_map { |part| part.split(/^- /).drop(1) }
    assert_operator entries.size, :>, 100
    assert_empty entries.grep_v(/\A\*\*[^*]+\*\*[^*]*[.!:](?:\s|\z)/m), "no rule in bold"
    bare = entries.reject { |entry| entry[/\A\*\*[^*]+\*\*(.*)/m, 1].split.size >= 10 }
    assert_empty bare, "a reason or a consequence is missing"
  end

  def test_readme_fits_on_its_screens
    assert_operator read("README.md").lines.size, :<=, README_LINES
  end

  def test_changelog_has_few_short_items_for_each_version
    read("CHANGELOG.md").split(/^## /).drop(1).each do |version|
      items = version.scan(/^- .+\n(?:  .+\n)*/)
      refute_empty items, version.lines.first
      assert_operator items.size, :<=, CHANGES, version.lines.first
      assert_empty items.select { |item| item.lines.size > CHANGE_LINES }, version.lines.first
    end
  end

  # --- no reference to a list that only its author has, such as an H and the number of a row ---

  # The floors of PROJECT_RULES.md (R1, N1) and the first bytes of Avro's single-object encoding are no such reference.
  ROW = /\b(?!R[1-5]\b|N[0-3]\b|C3 01\b)[CDEHNPRSTWX]\d{1,3}\b/
  COMMENTED = Dir.glob(%w[{lib,test,bench,examples}/**/*.rb ext/**/*.rs], base: ROOT).freeze

  def test_pages_refer_to_no_row_of_a_list
    found = PAGES.to_h { |page| [page, read(page).gsub(/^```.*?^```/m, "").scan(ROW)] }
    assert_empty found.reject { |_, rows| rows.empty? }, "say what the row says:"
  end

  def test_comments_refer_to_no_row_of_a_list
    found = COMMENTED.to_h { |path| [path, rows_in(read(path))] }
    assert_empty found.reject { |_, rows| rows.empty? }, "say what the row says:"
  end

  def test_a_row_is_found_in_comments_of_ruby_and_rust
    row = ["H", 7].join
    assert_equal [row] * 3, rows_in("  # #{row}.\nx = 1 # see #{row}\n/// #{row}: a poller\n")
    assert_empty rows_in("# floor R4\n# bytes C3 01\nrun(\"-W0\", \"#{row}\")\n")
  end

  # --- names of tests: subject, condition, expectation ---

  RIDDLE = /\Atest_(?:what|who|it|that)_|_(?:whom?|whoever|nobody|somebody|anew|in_vain|(?:is|are)_told)(?:_|\z)/

  def test_names_of_tests_have_a_subject
    names = Dir.glob("test/**/*.rb", base: ROOT).flat_map { |path| read(path).scan(/^\s*def (test_\w+)/).flatten }
    assert_operator names.size, :>, 1500
    assert_empty names.grep(RIDDLE), "say subject, condition and expectation:"
  end

  # --- names in the code: no metaphor from family, weather, funerals or staffing, and none that was replaced ---

  METAPHOR = /(?:\A|_)(?:heirs?|orphan(?:s|ed)?|widow|birth|mourn|bur(?:y|ied)|funeral|hires?|dismiss|vacant|employ |
              depart(?:ing)?|weather|storm|ailments?|strays?|verdicts?|moulds?|nudge|hurry|let_go|lots?|lanes? )
              (?:_|\z|[?!])/x
  KINDS = "def (?:self\\.)?|fn |class |module |struct |enum |trait |static |const "
  DEFINED = /^\s*(?:pub(?:\(\w+\))? )?(?:#{KINDS})(\w+[?!]?)|@(\w+)/

  def test_names_are_no_metaphors
    code = Dir.glob(%w[lib/**/*.rb ext/*/src/**/*.rs], base: ROOT).to_h { |path| [path, names_in(read(path))] }
    assert_operator code.values.sum(&:size), :>, 5000
    assert_empty code.transform_values { |names| names.grep(METAPHOR) }.reject { |_, names| names.empty? },
                 "docs/internals/glossary.md has the words of Pelton:"
  end

  def test_a_metaphor_is_found_in_names
    assert_equal %w[give_birth heir? verdict lane],
                 names_in("def give_birth\nfn heir?()\n@verdict = 1\nstruct Lane\nclass Planes\n@slot").grep(METAPHOR)
  end

  # --- names of locals, parameters and methods: a noun that says what it is, such as `topic` ---

  EMPTY = %i[one two thing things stuff obj elem foo tmp].freeze

  def test_names_of_locals_say_what_they_stand_for
    code = Dir.glob("{lib,test,bench,examples}/**/*.{rb,erb}", base: ROOT).to_h do |path|
      [path, locals_in(ruby(path)) & EMPTY]
    end
    assert_operator code.size, :>, 1000
    assert_empty code.reject { |_, names| names.empty? }, "say what it is:"
  end

  def test_an_empty_name_is_found_among_locals_parameters_and_methods
    ["topics.map { |one| one.name }", "topics.map { |name, (one, _)| name }", "->(one) { one }", "one = 1",
     "def shown(one) = one", "def add(one: nil) = nil", "def one = 1", "def shown = topics.any? { |one| one }",
     ruby_of("<% topics.each do |one| -%>\n<%= one.name %>\n<%- end -%>")].each do |source|
      assert_equal [:one], locals_in(source) & EMPTY, source
    end
    assert_empty locals_in("one_by_one = \"one\".size # each one\nother(one: one_by_one)") & EMPTY
  end

  # --- the measure itself ---

  def test_good_prose_has_no_problem
    assert_empty problems("`produce` blocks for up to `queue_timeout` (10 s). Then it raises `QueueFullError`.")
  end

  def test_a_long_sentence_is_a_problem
    short = "It ends here. So it does. It is short."
    assert_match(/\A41 words, more than 40: word/, problems("#{(["word"] * 41).join(" ")}. #{short}").first)
    assert_empty problems("#{(["word"] * 40).join(" ")}. #{short}")
  end

  def test_long_sentences_on_average_are_a_problem
    text = "#{(["word"] * 19).join(" ")}. " * 5
    assert_equal ["19.0 words per sentence on average, more than 18"], problems(text)
    assert_in_delta 19.0, Prose.new(text).average
  end

  def test_each_retired_phrase_is_a_problem
    ["The client starts anew.", "It waits in vain for it.", "Who forgets to stop is stopped.",
     "There are so many of them.", "The event tells of it.", "A full queue is waited for, then it raises.",
     "Nobody waits for it.",
     "The app is told that it ends.", "They differ, as far as we know.", "It runs a block of yours.",
     "It is retried, for it is not marked."].each do |bad|
      refute_empty problems("It works well here. #{bad} It goes on."), bad
    end
  end

  def test_a_phrase_across_two_lines_is_a_problem
    assert_equal 1, problems("There are so\nmany of them.").size
  end

  def test_good_phrases_like_retired_ones_are_no_problem
    ["It waits as long as it can, so long as a job runs.", "It runs so often that it hurts.",
     "Who should read this page?", "Waits for it are short.", "The handler that raised runs again."].each do |good|
      assert_empty problems(good), good
    end
  end

  def test_a_page_with_too_many_words_is_a_problem
    page = "A short sentence of words.\n\n| a | b |\n" * 2
    assert_empty Prose.new(page).problems(limit: 14)
    assert_equal ["14 words on the page, more than 13"], Prose.new(page).problems(limit: 13)
  end

  def test_code_tables_and_headings_are_no_sentences
    long = (["word"] * 50).join(" ")
    assert_empty problems("# #{long}\n\n```ruby\n#{long}\n```\n\n| #{long} |\n\nIt calls `#{long}` now.")
  end

  private

  # As snake_case: "key_queue" of "class KeyQueue".
  def names_in(source)
    source.scan(DEFINED).map { |names| names.compact.first.gsub(/(?<=[a-z])(?=[A-Z])/, "_").downcase }
  end

  # Also the names of methods.
  def locals_in(source) = locals(RubyVM::InstructionSequence.compile(source)).uniq

  def locals(sequence)
    names = [sequence.base_label.to_sym, *sequence.to_a[10]]
    sequence.each_child { |child| names.concat(locals(child)) }
    names
  end

  def ruby(path) = path.end_with?(".erb") ? ruby_of(read(path)) : read(path)
  def ruby_of(template) = ERB.new(template, trim_mode: "-").src

  def rows_in(source) = source.scan(%r{(?:^|\s)(?:#|//[/!]?)\s.*}).flat_map { |comment| comment.scan(ROW) }

  def problems(text) = Prose.new(text).problems

  def read(page) = File.read(File.join(ROOT, page))
end
