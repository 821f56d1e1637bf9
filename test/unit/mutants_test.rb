# frozen_string_literal: true

# once: the sources are the same for each Ruby

require_relative "../test_helper"
require "support/mutants/ruby_sites"
require "support/mutants/rust_sites"
require "support/mutants/rust_switches"

# The changes that bin/mutants makes.
class MutantsTest < Minitest::Test
  RUBY = <<~CODE
    class Order < Struct.new(:lines)
      LIMIT = 12

      def initialize
        @lines = []
      end

      # é: a < b is a comment, and "1 < 2" a String
      def add(line, count)
        return if count < 1 && !line.empty?

        found = find(line, count)
        @lines.push(found)
        notify do |listener|
          listener.call(found.first, "a, b")
        end
        found
      end

      def self.of(line, count) = new([line] * count)
    end
  CODE

  RUST = <<~CODE
    // a < b
    fn add(&mut self, line: &str, count: usize) -> Option<Line> {
        if !line.is_empty() && count >= 1 {
            self.lines.push(line);
            self.say("a < b");
            note(line, count);
        }
        None
    }

    const LIMIT: usize = 3;
    const fn limit() -> usize { LIMIT + 1 }

    trait Full {
        fn is_full(&self, sizes: [u8; 4]) -> bool;
    }

    impl Full for Lines {
        fn is_full(&self, sizes: [u8; 4]) -> bool {
            self.len > sizes.len() && self.text != "} \\
             < 2"
        }
    }

    #[cfg(test)]
    mod tests {
        const A: bool = 1 < 2;
    }
  CODE

  def test_changes_of_ruby_code
    assert_equal [
      "2 number: `12` → `24`", "10 compare: `<` → `<=`", "10 condition: `if` → `unless`",
      "10 drop: `return if count < 1 && !line.empty?` → ``", "10 logic: `&&` → `||`", "10 negation: `!` → ``",
      "10 number: `1` → `2`", "12 swap: `line, count` → `count, line`", "13 drop: `@lines.push(found)` → ``",
      "13 method: `push` → `unshift`", "15 drop: `listener.call(found.first, \"a, b\")` → ``",
      "15 method: `first` → `last`"
    ].sort, changes(Mutants::RubySites, RUBY).sort
  end

  def test_changes_of_rust_code
    assert_equal ["3 compare: `>=` → `>`", "3 condition: `!` → ``", "3 logic: `&&` → `||`", "3 number: `1` → `2`",
                  "4 drop: `self.lines.push(line);` → `();`", "5 drop: `self.say(\"a < b\");` → `();`",
                  "6 drop: `note(line, count);` → `();`", "6 swap: `line, count` → `count, line`",
                  "20 compare: `>` → `>=`", "20 compare: `!=` → `==`", "20 logic: `&&` → `||`"].sort,
                 changes(Mutants::RustSites, RUST).sort
  end

  def test_a_change_is_made_at_its_place_and_nowhere_else
    { Mutants::RubySites => RUBY, Mutants::RustSites => RUST }.each do |kind, code|
      kind.new("file", code).to_a.each do |site|
        changed = site.apply(code)
        assert_equal code.encoding, changed.encoding
        different = code.lines.zip(changed.lines).each_with_index.reject { |(before, after), _| before == after }
        assert_equal [site.line - 1], different.map(&:last)
      end
    end
  end

  def test_changes_of_rust_are_compiled_together_and_a_number_picks_one
    in_tree(RUST) do |root, path|
      sites = Mutants::RustSites.new(path, RUST).to_a.select { |site| site.line == 20 }
      switches = Mutants::RustSwitches.new(root, sites.each_with_index.to_h { |site, index| [index + 7, site] }).write
      text = File.read(File.join(root, path))
      body = "{\n        self.len > sizes.len() && self.text != \"} \\\n         < 2\"\n    }"
      assert_includes text, "-> bool {\nmatch crate::changes::number() {\n7 => #{body.sub(" > ", " >= ")}\n"
      assert_includes text, "9 => #{body.sub("&&", "||")}\n_ => #{body}\n}\n}\n}\n"
      assert_equal [1, 1], [">= sizes", "|| self"].map { |changed| text.scan(changed).size }
      assert_includes File.read(File.join(root, "ext/core/src/lib.rs")), "pub mod changes;\npub mod line;"
      assert_equal [7, 8, 9], switches.numbers
    end
  end

  def test_a_change_that_does_not_compile_is_taken_out
    in_tree(RUST) do |root, path|
      sites = Mutants::RustSites.new(path, RUST).to_a.each_with_index.to_h { |site, index| [index, site] }
      switches = Mutants::RustSwitches.new(root, sites).write
      line = ->(text) { File.readlines(File.join(root, path)).rindex { |found| found.include?(text) } + 1 }
      swapped = sites.key(sites.values.find { |site| site.operator == :swap })
      assert_equal [swapped], switches.drop([[path, line.("note(count, line)")]])
      refute_includes switches.write.numbers, swapped
      # The bodies of a function may not fit together.
      all = sites.select { |_, site| site.line == 20 }.keys
      assert_equal all, switches.drop([[path, line.("match crate::changes")]])
      assert_empty switches.drop([[path, 1]])
    end
  end

  # A place would be changed twice, or one that is no code, if it were found in another file's text.
  def test_every_change_of_the_project_fits
    root = File.expand_path("../..", __dir__)
    sites = Dir.glob("lib/pelton/**/*.rb", base: root).flat_map do |path|
      text = File.read(File.join(root, path))
      Mutants::RubySites.new(path, text).to_a.each { |site| refute site.apply(text) == text, "no change: #{site}" }
    end
    assert_operator sites.map(&:operator).uniq.size, :>=, 9
  end

  private

  def in_tree(text)
    Dir.mktmpdir do |root|
      FileUtils.mkdir_p(File.join(root, "ext/core/src"))
      File.write(File.join(root, "ext/core/src/lib.rs"), "pub mod line;\n")
      File.write(File.join(root, "ext/core/src/line.rs"), text)
      yield root, "ext/core/src/line.rs"
    end
  end

  def changes(kind, code) = kind.new("file", code).to_a.map { |site| site.to_s.delete_prefix("file:") }
end
