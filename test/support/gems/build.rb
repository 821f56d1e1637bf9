# frozen_string_literal: true

require "digest"
require "fileutils"
require "set"
require "tmpdir"
require_relative "native_build"
require_relative "package"
require_relative "bill_of_materials"
require_relative "clean_system"

# What bin/gems does, in order.
module Gems
  class Failure < StandardError; end

  ROOT = File.expand_path("../../..", __dir__)

  module_function

  # Returns the paths of the gems. rubies: paths; suites: Debian's, such as "trixie".
  def build(rubies:, to:, suites: [], source_only: false, working_copy: false, twice: false,
            compile: false, target: nil, root: "/")
    FileUtils.mkdir_p(to)
    FileUtils.rm_f(Dir.glob("#{to}/{pelton-*.gem,pelton-*.cdx.json,SHA256SUMS}"))
    gems = [Package.source.write(to)]
    unless source_only
      extensions = working_copy ? NativeBuild.working_copy : NativeBuild.new(rubies, target: target, root: root).call
      bill = BillOfMaterials.new.to_json
      gems << Package.precompiled(extensions, bill, target).write(to)
      File.write(gems.last.sub(/\.gem\z/, ".cdx.json"), bill)
    end
    sums(to)
    gems.each { |path| puts format("%<size>5.1f MB  %<path>s", size: File.size(path) / 1e6, path: path) }
    options = { "--target" => target, "--root" => target && root }.compact.to_a.flatten
    compare(to, rubies, *("--source" if source_only), *options) if twice
    try(gems.first, RbConfig.ruby) if compile
    rubies.each { |ruby| try(gems.last, ruby, small: !working_copy) } unless source_only || target
    suites.each { |suite| CleanSystem.new(suite, target).try(gems.last) }
    gems
  end

  # Installs the gem for a Ruby, apart from its other gems, and uses it. Raises a Failure if that failed, or
  # if the extension shall be small and is not. A source gem is compiled, which takes minutes.
  def try(gem, ruby, small: true)
    Dir.mktmpdir("pelton-try") do |folder|
      CleanSystem::FILES.each { |file| FileUtils.cp("#{ROOT}/test/support/#{file}", folder) }
      env = { "GEM_HOME" => "#{folder}/gems", "GEM_PATH" => "#{folder}/gems" }
      NativeBuild.run(env, ruby, "-S", "gem", "install", "--local", "--no-document", gem, chdir: folder)
      NativeBuild.run(env, ruby, "-w", "first_use.rb", chdir: folder)
      extension = installed(ruby, "#{folder}/gems")
      NativeBuild.check_size(extension) if small
      puts format("%<gem>s works with %<ruby>s. Its extension has %<size>.2f MB.", gem: File.basename(gem), ruby: ruby,
                                                                                   size: File.size(extension) / 1e6)
    end
  end

  # The path of a Ruby's extension in this folder of gems.
  def installed(ruby, folder)
    abi = NativeBuild.abi(ruby)
    found = Dir.glob("#{folder}/gems/*/lib/pelton/#{abi}/pelton.*")
    raise Failure, "no extension for Ruby #{abi} was installed" if found.empty?

    found.first
  end

  # Builds once more, from a clone of this commit in another folder. Raises a Failure unless the bytes are the same.
  def compare(folder, rubies, *options)
    Dir.mktmpdir("pelton-twice") do |again|
      NativeBuild.run({}, "git", "clone", "-q", ROOT, "#{again}/clone")
      NativeBuild.run({ "SOURCE_DATE_EPOCH" => epoch.to_s }, RbConfig.ruby, "#{again}/clone/bin/gems", *options,
                      "--to", "#{again}/pkg", *rubies.flat_map { |ruby| ["--ruby", ruby] })
      different = lines(folder) ^ lines("#{again}/pkg")
      raise Failure, "a clone gives other bytes:\n#{different.to_a.join}" if different.any?
    end
    puts "A clone in another folder gives the same bytes."
  end

  # Of SHA256SUMS.
  def lines(folder) = File.readlines(File.join(folder, "SHA256SUMS")).to_set

  # When the commit was made, so that the same commit gives the same bytes.
  def epoch
    ENV["SOURCE_DATE_EPOCH"] ||= IO.popen(%w[git log -1 --format=%ct], chdir: ROOT, &:read).strip
    raise Failure, "set SOURCE_DATE_EPOCH: git names no commit here" unless ENV["SOURCE_DATE_EPOCH"].match?(/\A\d+\z/)

    Integer(ENV.fetch("SOURCE_DATE_EPOCH"))
  end

  def sums(folder)
    files = Dir.children(folder).grep(/\Apelton-/).sort
    lines = files.map { |file| "#{Digest::SHA256.file(File.join(folder, file)).hexdigest}  #{file}\n" }
    File.write(File.join(folder, "SHA256SUMS"), lines.join)
  end
end
