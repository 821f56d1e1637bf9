# frozen_string_literal: true

require "digest"
require "fileutils"
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
  def build(rubies:, to:, suites: [], source_only: false, working_copy: false)
    FileUtils.mkdir_p(to)
    FileUtils.rm_f(Dir.glob("#{to}/{pelton-*.gem,pelton-*.cdx.json,SHA256SUMS}"))
    gems = [Package.source.write(to)]
    unless source_only
      extensions = working_copy ? NativeBuild.working_copy : NativeBuild.new(rubies).call
      bill = BillOfMaterials.new.to_json
      gems << Package.precompiled(extensions, bill).write(to)
      File.write(gems.last.sub(/\.gem\z/, ".cdx.json"), bill)
    end
    sums(to)
    gems.each { |path| puts format("%<size>5.1f MB  %<path>s", size: File.size(path) / 1e6, path: path) }
    suites.each { |suite| CleanSystem.new(suite).try(gems.last) }
    gems
  end

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
