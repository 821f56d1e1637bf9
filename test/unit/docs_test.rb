# frozen_string_literal: true

require "test_helper"
require "pelton"

# Documentation is tested: generated pages are fresh, links lead somewhere, what the README names exists.
class DocsTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGES = Dir.glob(["*.md", "docs/**/*.md", "bench/*.md"], base: ROOT)

  def read(page) = File.read(File.join(ROOT, page))

  def test_generated_pages_are_fresh
    assert_equal Pelton::Settings.to_markdown, read("docs/configuration.md"), "run bin/docs"
    assert_equal Pelton::Events.to_markdown, read("docs/events.md"), "run bin/docs"
  end

  def test_links_lead_somewhere
    PAGES.each do |page|
      read(page).scan(/\]\(([^)#]+)[^)]*\)/).flatten.reject { |link| link.include?("://") }.each do |link|
        assert File.exist?(File.expand_path(link, File.dirname(File.join(ROOT, page)))), "#{page}: #{link} is not there"
      end
    end
  end

  # Paths in `code` of the pages for developers.
  def test_named_files_exist
    %w[README.md CONTRIBUTING.md PROJECT_RULES.md docs/internals.md docs/concurrency.md].each do |page|
      read(page).scan(%r{`((?:lib|ext|test|bin|bench|docs|examples)/[\w./-]+)`}).flatten.each do |path|
        assert Dir.glob(path, base: ROOT).any?, "#{page}: #{path} is not there"
      end
    end
  end

  def test_the_methods_that_the_readme_names_exist
    code = read("README.md").scan(/```ruby\n(.*?)```/m).join
    code.scan(/Pelton\.(\w+)/).flatten.uniq.each { |name| assert_respond_to Pelton, name }
    code.scan(/producer\.(\w+)/).flatten.uniq.each { |name| assert Pelton::Producer.method_defined?(name), name }
    code.scan(/config\.(\w+)/).flatten.uniq.each { |name| assert Pelton::Config.method_defined?(name), name }
  end
end
