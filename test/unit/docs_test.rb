# frozen_string_literal: true

# once: the pages are the same for each Ruby

require "test_helper"
require "pelton"
require "pelton/metrics"
require "pelton/reporters/errors"
require "pelton/reporters/statsd"
require "pelton/railtie/current_attributes"
require "pelton/testing"
require "pelton/tracing"
require "support/guides"
require "support/reference"

# Documentation is tested: generated pages are fresh, links lead somewhere, what the README names exists.
class DocsTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  GUIDES = Guides::PAGES
  PAGES = Dir.glob(["*.md", "docs/**/*.md", "bench/*.md", "test/*.md"], base: ROOT)
  # The pages for people who change Pelton.
  INSIDE = Dir.glob("docs/internals/*.md", base: ROOT)
  DEVELOPERS = [*INSIDE, *%w[CONTRIBUTING.md PROJECT_RULES.md docs/concurrency.md test/README.md]].freeze
  GLOSSARY = "docs/internals/glossary.md"
  ROLES = 30
  # Their names end as those of roles do, and they are things.
  THINGS = %w[adapter buffer cluster error filter generator letter].freeze

  def read(page) = File.read(File.join(ROOT, page))

  def test_generated_pages_are_fresh
    Reference.pages.each { |name, text| assert_equal text, read("docs/reference/#{name}"), "run bin/docs" }
  end

  def test_each_error_class_says_when_it_is_raised_and_what_to_do
    errors = Reference.error_classes
    classes = Pelton.constants.map { |name| Pelton.const_get(name) }.grep(Class)
    defined = classes.select { |klass| klass <= Pelton::Error }
    assert_empty defined.map { |klass| klass.name.delete_prefix("Pelton::") } - errors.map(&:name)
    errors.each do |error|
      refute_empty error.cause, error.name
      refute_empty error.advice, "#{error.name}: a line `What to do:` is missing above it"
    end
  end

  # `missing?` was in no row, although a guide calls it on both errors.
  def test_error_page_lists_the_methods_for_users_and_no_others
    details = Reference.error_classes.to_h { |error| [error.name, error.readers] }
    assert_equal %w[what status code url missing?], details["RegistryError"]
    assert_equal %w[missing?], details["SchemaUnavailable"]
    assert_equal %w[topic partition offset attribute position length excerpt], details["DecodeError"]
    details.each do |name, methods|
      klass = Pelton.const_get(name)
      assert(methods.all? { |method| klass.public_method_defined?(method) }, name)
    end
  end

  def test_links_lead_somewhere
    PAGES.each do |page|
      read(page).scan(/\]\(([^)#]+)[^)]*\)/).flatten.reject { |link| link.include?("://") }.each do |link|
        assert File.exist?(File.expand_path(link, File.dirname(File.join(ROOT, page)))), "#{page}: #{link} is not there"
      end
    end
  end

  def test_anchors_of_links_are_headings
    PAGES.each do |page|
      read(page).scan(/\]\(([^)#]*)#([^)]+)\)/).each do |link, anchor|
        next if link.include?("://")

        target = link.empty? ? page : File.expand_path(link, File.dirname(File.join(ROOT, page)))
        headings = File.read(File.expand_path(target, ROOT)).gsub(/^```.*?^```/m, "").scan(/^#+ (.*)$/).flatten
        assert_includes headings.map { |heading| anchor_of(heading) }, anchor, "#{page}: #{link}"
      end
    end
  end

  # As GitHub and GitLab make it of a heading.
  def anchor_of(heading) = heading.downcase.gsub(/[^\p{Word}\- ]/, "").tr(" ", "-")

  # Paths in `code` of the pages for developers.
  def test_named_files_exist
    [*GUIDES, *DEVELOPERS].each do |page|
      read(page).scan(%r{`((?:lib|ext|test|bin|bench|docs|examples)/[\w./-]+)`}).flatten.each do |path|
        assert Dir.glob(path, base: ROOT).any?, "#{page}: #{path} is not there"
      end
    end
  end

  # "closing.rs", "rd/conf.rs", "Job#clear", "Chunk::thin"
  def test_names_in_the_internals_pages_exist
    sources = Dir.glob("{lib,ext/*/src,test,bench}/**/*.{rb,rs}", base: ROOT)
    code = sources.map { |path| read(path) }.join
    INSIDE.each do |page|
      spans = read(page).gsub(/```.*?```/m, "").scan(/`([^`]+)`/).flatten.uniq
      spans.grep(%r{\A[\w./-]+\.r[bs]\z}).each do |name|
        assert sources.any? { |path| "/#{path}".end_with?("/#{name}") }, "#{page}: #{name} is not there"
      end
      spans.filter_map { |span| span.match(/\A(?:\w+::)*([A-Z]\w+)(?:#|::|\.)([a-z_]\w*[?!]?)/) }.each do |found|
        next unless code.match?(/\b(?:class|module|struct|enum) #{found[1]}\b/)

        assert_match(/\b(?:def (?:self\.)?|fn |attr_\w+ .*:|def_delegators? .*:)#{Regexp.escape(found[2])}/, code,
                     "#{page}: #{found}")
      end
    end
  end

  def test_each_role_is_in_the_glossary_once_with_its_class
    roles = read(GLOSSARY).scan(/^\| ([a-z ]+) \| `(\w+)` \| (.+) \|$/)
    assert_includes 20..ROLES, roles.size
    assert_equal roles.map(&:first).uniq, roles.map(&:first)
    known = defined_in("lib/**/*.rb", "class|module") + defined_in("ext/core/src/**/*.rs", "struct")
    assert_empty roles.map { |_, name,| name } - known, "no class has the name"
    assert_empty roles.select { |_, _, sentence| sentence.match?(/[.;]( |\z)/) }, "more than one sentence"
    words = defined_in("lib/**/*.rb", "class").grep(/(?:er|or)\z/).map { |name| name[/[A-Z][a-z]+\z/].downcase }.uniq
    assert_empty words - THINGS - roles.map(&:first), "#{GLOSSARY} lacks"
  end

  # These are lists or compare tools; everything else begins with an example and ends with what can go wrong.
  WITHOUT_EXAMPLE = %w[command-line dashboard-pages moving-from-karafka terms troubleshooting].freeze
  # Without settings: the meaning of words; and symptoms with links to the pages that have them.
  WITHOUT_OPTIONS = %w[terms troubleshooting].freeze

  def test_each_guide_has_an_example_its_options_and_says_what_can_go_wrong
    pages = GUIDES.grep(%r{\Adocs/guides/}).to_h { |page| [File.basename(page, ".md"), read(page)] }
    assert_operator pages.size, :>, 40
    assert_empty pages.except(*WITHOUT_EXAMPLE).reject { |_, text| text.match?(/^## .*[Ss]mallest example$/) }.keys
    assert_empty pages.except(*WITHOUT_OPTIONS).reject { |_, text| text.include?("\n## Options\n\n") }.keys
    assert_empty pages.except("terms", "troubleshooting").reject { |_, text|
                   text.include?("\n## What can go wrong\n")
                 }.keys
  end

  # By the name of its class, or because users load the file by name.
  def test_the_top_level_of_lib_holds_what_users_type
    section = read("PROJECT_RULES.md")[/^## What is public\n(.*?)^## /m, 1]
    files = Dir.glob("*.rb", base: File.join(ROOT, "lib/pelton")).map { |file| File.basename(file, ".rb") }
    hidden = (files - %w[errors version]).reject do |file|
      section.match?(%r{`(?:pelton/#{file}|#{file.split("_").map(&:capitalize).join})`})
    end
    assert_empty hidden, "no user types it, so it belongs into a folder below lib/pelton:"
  end

  def test_contributing_names_the_rust_that_cargo_needs
    needed = read("Cargo.toml")[/^rust-version = "([\d.]+)"/, 1]
    assert_includes read("CONTRIBUTING.md"), "Rust #{needed} or newer"
  end

  # In the text, that is: the blocks are run by test/embedded/guides_test.rb.
  def test_names_in_the_guides_exist
    code = GUIDES.flat_map { |page| read(page).gsub(/```.*?```/m, "").scan(/`([^`]+)`/) }.flatten
    code = (code - Pelton::Events::TABLE.keys).map { |text| text.gsub(/"[^"]*"/, "") }
    { /\bPelton\.(\w+!?)/ => Pelton.singleton_class, /\bconfig\.(\w+)/ => Pelton::Config,
      /(?<!-)\bproducer\.(\w+)/ => Pelton::Producer, /\bmessage\.(\w+)/ => Pelton::Message }.each do |pattern, owner|
      names = code.flat_map { |text| text.scan(pattern) }.flatten.uniq
      assert_operator names.size, :>, 2, pattern.inspect
      assert_empty names.reject { |name| owner.method_defined?(name) }, "#{owner} lacks"
    end
    code.flat_map { |text| text.scan(/\bPelton(?:::\w+)+/) }.each { |name| assert Object.const_get(name), name }
  end

  # {case of a bench => [bench, what one of the README's is there, how exact it is, median, least and most]}
  HEADLINES = {
    "5 KB text, field filter (where), the rare read" => ["framework", 1, 500, %w[401,000 353,000 419,000]],
    "JSON.parse of each, no Kafka, 5 KB text" => ["framework", 1, 500, %w[78,000 68,000 85,000]],
    "1 KB, untouched" => ["framework", 1_000_000, 0.005, %w[2.21 1.85 2.22]],
    "C loop, 1 KB" => ["framework", 1_000_000, 0.005, %w[1.98 1.98 2.11]],
    "produce_sync, default settings, p50" => ["sync", 1_000, 0.005, %w[0.10 0.10 0.11]],
    "C loop, default settings, p50" => ["sync", 1_000, 0.005, %w[5.27 5.27 5.28]]
  }.freeze

  def test_the_readmes_numbers_are_those_of_the_results
    HEADLINES.each do |name, (bench, unit, exact, shown)|
      row = read("bench/results/#{bench}-ruby4.0.md")[/^\| #{Regexp.escape(name)} \|(.*)$/, 1]
      measured = row.scan(/\d[\d,.]*/).first(3).map { |number| Float(number.delete(",")) / unit }
      shown.zip(measured) { |number, there| assert_in_delta there, Float(number.delete(",")), exact, name }
      assert_match(%r{#{shown[0]} (?:M )?m(?:sg/)?s \(#{shown[1]}–#{shown[2]}\)}, read("README.md"), name)
    end
  end

  # "Producer.live" for Rust's, "Coordinator" for Ruby's. (Test doubles are nobody's business.)
  def test_every_lock_has_its_place_in_the_order
    page = read("docs/concurrency.md")
    assert_empty (rust_locks + ruby_locks).reject { |lock| page.include?("`#{lock}") }, "docs/concurrency.md lacks"
  end

  RUST_LOCK = /^\ *(?:pub(?:\(\w+\))?\ )?struct\ (\w+) # whose
             | ^\ +(?:pub\ )?(\w+):\ .*\b(?:Mutex|RwLock)<
             | ^static\ (\w+):\ Mutex</x

  # kinds: "class|module"
  def defined_in(pattern, kinds)
    texts = Dir.glob(pattern, base: ROOT).map { |path| read(path) }
    texts.flat_map { |text| text.scan(/^\s*(?:pub )?(?:#{kinds}) ([A-Z]\w*)/).flatten }
  end

  def rust_locks
    Dir.glob("ext/*/src/**/*.rs", base: ROOT).flat_map do |path|
      rows = read(path).scan(RUST_LOCK)
      rows.each_with_object([]) do |(struct, field, static), found|
        @struct = struct if struct
        found << (static || "#{@struct}.#{field}") if static || field
      end
    end
  end

  def ruby_locks
    files = Dir.glob("lib/**/*.rb", base: ROOT).grep_v(%r{/testing/})
    files.select! { |path| read(path).include?("= Mutex.new\n") }
    files.map { |path| File.basename(path, ".rb").split("_").map(&:capitalize).join }
  end
end
