# frozen_string_literal: true

require "fileutils"
require "json"
require "open3"
require "rbconfig"
require "tmpdir"

# The made-up applications of test/vectors/migrate: their files, what `pelton migrate` finds there, the draft, and its
# routes. `ruby -Ilib -Itest test/support/migrate_vectors.rb` writes what is expected anew: look at the difference.
class MigrateVector
  FOLDER = File.expand_path("../vectors/migrate", __dir__)
  ROOT = File.expand_path("../..", __dir__)
  PELTON = [RbConfig.ruby, "-w", "-I#{ROOT}/lib", "#{ROOT}/exe/pelton"].freeze
  # Parts of a vector that are no files of the app.
  PARTS = %w[stubs findings draft routes].freeze

  #: () -> Array[MigrateVector]
  def self.all = Dir.glob("#{FOLDER}/*.txt").map { |path| new(path) }

  attr_reader :name

  def initialize(path)
    @path = path
    @name = File.basename(path, ".txt")
    # {"karafka.rb" => text, "findings" => text, …}
    @parts = File.read(path).split(/^=== (.+)\n/, -1).drop(1).each_slice(2).to_h
  end

  # What the vector expects: {"findings" => text, …}
  def expected = PARTS.drop(1).to_h { |part| [part, @parts.fetch(part, "")] }

  # The same, of this version.
  def actual
    Dir.mktmpdir do |folder|
      @parts.except(*PARTS).each do |name, text|
        FileUtils.mkdir_p(File.dirname(File.join(folder, name)))
        File.write(File.join(folder, name), text)
      end
      found = findings(folder)
      { "findings" => found, "draft" => draft(folder), "routes" => routes(folder) }
    end
  end

  def write
    kept = @parts.except(*PARTS.drop(1)).merge(actual)
    File.write(@path, kept.map { |name, text| "=== #{name}\n#{text}" }.join)
  end

  private

  def findings(folder)
    out, err, = Open3.capture3(*PELTON, "migrate", folder, "--json")
    report = JSON.parse(out)
    lines = report["findings"].map do |finding|
      text = finding.values_at("code", "pelton", "note").compact.join(" | ")
      "#{finding["file"]}:#{finding["line"]} #{finding["status"]} | #{text}\n"
    end
    "#{err}#{lines.join}"
  end

  # A vector with code that cannot be parsed has none.
  def draft(folder)
    _, err, status = Open3.capture3(*PELTON, "migrate", folder, "--write")
    @draft = Dir.glob("#{folder}/{pelton,config/pelton}.rb").first
    raise "#{@name}: #{err}" unless status.success? == !@draft.nil?

    @draft ? File.read(@draft) : ""
  end

  # What `pelton routes` prints once the draft's consumers exist.
  def routes(folder)
    return "" unless @draft && File.read(@draft).include?("Pelton.routes")

    stubs = File.join(folder, "stubs.rb")
    File.write(stubs, [@parts["stubs"], *classes].join("\n"))
    out, err, = Open3.capture3(*PELTON, "routes", "-r", stubs, "-r", @draft)
    "#{err}#{out}"
  end

  def classes
    File.read(@draft).scan(/to: "([\w:]+)"/).flatten.uniq.map do |name|
      modules = name.split("::")[0...-1].map { |namespace| "module #{namespace}; end" }
      [*modules, "class #{name} < Pelton::Consumer; def consume = nil; def tick = nil; end"].join("; ")
    end
  end
end

MigrateVector.all.each(&:write) if $PROGRAM_NAME == __FILE__
