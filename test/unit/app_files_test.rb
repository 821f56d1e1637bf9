# frozen_string_literal: true

require_relative "../test_helper"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# The files of `-r`, in a process of its own, with as much of Rails as they need.
class AppFilesTest < Minitest::Test
  RAILS = {
    "rails.rb" => "module Rails; class << self; attr_accessor :application; end; class Railtie; end; end",
    "config/application.rb" => "",
    "config/environment.rb" => "require 'rails'; Rails.application = Object.new; puts 'railtie' if defined?(FOUND)",
    "app.rb" => "require_relative 'config/environment'",
    "plain.rb" => "puts 'plain'",
    "route.rb" => "require 'pelton'\nPelton.routes do\n  topic(/^logs(?!x)/, to: 'X')\nend"
  }.freeze
  LIB = File.expand_path("../../lib", __dir__)
  # In the place of the railtie, which needs more of Rails.
  RAILTIE = "$LOADED_FEATURES << '#{LIB}/pelton/railtie.rb'; FOUND = 1; Pelton::Railtie = 1".freeze

  def load_files(*files, railtie: true)
    Dir.mktmpdir do |folder|
      RAILS.each do |path, text|
        FileUtils.mkdir_p(File.dirname(File.join(folder, path)))
        File.write(File.join(folder, path), text)
      end
      code = <<~RUBY
        require "pelton/cli/cli"
        #{RAILTIE if railtie}
        Dir.chdir(#{folder.inspect})
        Pelton::CLI::AppFiles.load(#{files.inspect})
      RUBY
      Open3.capture2e(RbConfig.ruby, "-I#{LIB}", "-I#{folder}", "-e", code).first
    end
  end

  def test_the_rails_app_of_the_folder_is_loaded_without_any_file
    assert_equal "railtie\n", load_files
  end

  ["config/environment", "./config/environment.rb"].each do |file|
    define_method("test_#{file.tr("./", "_")}_is_a_rails_app") { assert_equal "railtie\n", load_files(file) }
  end

  def test_a_file_beside_a_rails_app_is_loaded_alone
    assert_equal "plain\n", load_files("plain.rb")
  end

  def test_the_error_of_a_route_names_its_line
    assert_match(/topic = .*: unsupported syntax at "\(\?!x".* \(route\.rb:3\)/, load_files("route.rb"))
  end

  def test_a_file_that_loads_a_rails_app_behind_our_back_is_refused
    output = load_files("app.rb", railtie: false)
    assert_match(%r{-r = ".*app\.rb": loads a Rails app.*name its config/environment\.rb instead}, output)
  end
end
