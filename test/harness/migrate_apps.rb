# frozen_string_literal: true

require "fileutils"
require "json"
require "open3"
require "rbconfig"
require "tmpdir"

# Tries `pelton migrate` on applications that others wrote, such as Karafka's public examples. None of them is part of
# this repository.
#   git clone https://github.com/karafka/example-apps /tmp/apps
#   ruby test/harness/migrate_apps.rb /tmp/apps
# Each folder below FOLDER with a karafka.rb is an application; without any, FOLDER itself is one. Prints how many
# constructs were found, which of them are unknown, and a line for each failure: an exit code other than 0, or a draft
# that Ruby cannot parse. Ends with 1 after a failure, and with 2 if FOLDER is none. The applications are not changed.
class MigrateApps
  ROOT = File.expand_path("../..", __dir__)
  PELTON = [RbConfig.ruby, "-I#{ROOT}/lib", "#{ROOT}/exe/pelton"].freeze
  private_constant :ROOT, :PELTON

  def initialize(folder, out: $stdout)
    @folder = folder
    @out = out
    # {"same" => 34, "unknown" => 1}
    @counts = Hash.new(0)
    @failures = 0
  end

  # The exit code.
  def call
    unless File.directory?(@folder)
      @out.puts "#{@folder}: no such folder"
      return 2
    end

    applications.each { |path| migrate(path) }
    @out.puts "#{applications.size} applications, #{@counts.values.sum} constructs (#{text(@counts)}), " \
              "#{@failures} failures"
    @failures.zero? ? 0 : 1
  end

  private

  # A link to another one does not count: glob follows none.
  def applications
    @applications ||= begin
      found = Dir.glob("**/karafka.rb", base: @folder).map { |file| File.dirname(File.join(@folder, file)) }
      found = found.reject { |path| File.symlink?(path) }.sort
      found.empty? ? [@folder] : found
    end
  end

  def migrate(path)
    Dir.mktmpdir do |copy|
      FileUtils.cp_r("#{path}/.", copy)
      output, errors, status = Open3.capture3(*PELTON, "migrate", copy, "--write", "--json")
      return failed(path, errors) unless status.success?

      report(path, JSON.parse(output))
    end
  end

  def report(path, found)
    found["counts"].each { |kind, count| @counts[kind] += count }
    @out.puts "#{path}: #{found["files"]} files, #{text(found["counts"])}"
    found["findings"].each do |finding|
      @out.puts "  unknown: #{finding["file"]}:#{finding["line"]} #{finding["code"]}" if finding["status"] == "unknown"
    end
    errors, status = Open3.capture2e(RbConfig.ruby, "-c", found["written"])
    failed(path, errors) unless status.success?
  end

  def failed(path, errors)
    @failures += 1
    @out.puts "#{path}: failed: #{errors.lines.first(10).join.strip}"
  end

  def text(counts) = counts.map { |kind, count| "#{count} #{kind}" }.join(", ")
end

exit MigrateApps.new(ARGV.fetch(0) { abort "usage: ruby #{$PROGRAM_NAME} FOLDER" }).call if $PROGRAM_NAME == __FILE__
