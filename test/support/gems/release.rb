# frozen_string_literal: true

require "open3"
require_relative "build"

module Gems
  # What must be true before a release, and the commands that make it.
  class Release
    # .ci/run writes the commit that passed into it.
    TESTED = "target/tested"

    def initialize(root = ROOT)
      @root = root
    end

    # A sentence for each thing that is not ready.
    #: () -> Array[String]
    def problems = [unclean, tagged, version_of_crates, changelog, untested].compact

    # gems: paths
    #: (Array[String]) -> Array[Array[String]]
    def commands(gems)
      [["git", "tag", "-a", tag, "-m", "Pelton #{version}"], ["git", "push", "origin", tag],
       *gems.map { |path| ["gem", "push", path] }]
    end

    private

    def version = @version ||= read("lib/pelton/version.rb")[/VERSION = "(.+)"/, 1]
    def tag = "v#{version}"
    def read(path) = File.read(File.join(@root, path))

    def git(*arguments)
      output, status = Open3.capture2e("git", *arguments, chdir: @root)
      raise Failure, "git #{arguments.join(" ")}: #{output}" unless status.success?

      output
    end

    def unclean
      changed = git("status", "--porcelain").lines.map { |line| line[3..].chomp }
      "The working copy has changes that are not committed: #{changed.first(5).join(", ")}." if changed.any?
    end

    def tagged
      "The tag #{tag} exists: raise VERSION in lib/pelton/version.rb." unless git("tag", "--list", tag).empty?
    end

    def version_of_crates
      crates = read("Cargo.toml")[/^version = "(.+)"/, 1]
      "Cargo.toml has version #{crates}, and lib/pelton/version.rb has #{version}." unless crates == version
    end

    def changelog
      text = read("CHANGELOG.md")
      return "CHANGELOG.md has no section \"## #{version}\"." unless text.match?(/^## #{Regexp.escape(version)}\b/)

      unreleased = text[/^## Unreleased\n(.*?)^## /m, 1].to_s.strip
      "CHANGELOG.md has changes under \"Unreleased\": move them under \"## #{version}\"." unless unreleased.empty?
    end

    def untested
      commit = git("rev-parse", "HEAD").strip
      path = File.join(@root, TESTED)
      return if File.exist?(path) && File.read(path).strip == commit

      "No successful run of .ci/run is recorded for commit #{commit[0, 10]}: run it."
    end
  end
end
