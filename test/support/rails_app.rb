# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# A real Rails application, made by `rails new` in a folder of its own, which uses this working copy of Pelton. Needs
# Debian's ruby-rails, ruby-sqlite3 and puma.
class RailsApp
  ROOT = File.expand_path("../..", __dir__)
  # Parts of Rails that the tests do not need.
  WITHOUT = %w[git javascript webpack-install spring bootsnap listen action-cable action-mailbox action-text
               active-storage action-mailer system-test sprockets asset-pipeline turbolinks kamal
               bundle].map { |name| "--skip-#{name}" }
  GEMS = %w[rails sqlite3 puma].freeze
  # Each version of Rails writes another one.
  DATABASE = <<~YAML
    <%= Rails.env %>:
      adapter: sqlite3
      database: db/<%= Rails.env %>.sqlite3
      pool: 5
      timeout: 5000
  YAML

  # sqlite3 before 2.0 holds the GVL while it waits for the database's lock. So a thread of this process that has the
  # lock cannot go on, and the job fails after `timeout`: "database is locked". This waits without the GVL, up to 30 s.
  # A transaction that read before it writes does not wait at all, if another one writes meanwhile. So it takes the lock
  # when it begins, as in Rails 8.
  BUSY = <<~RUBY
    ActiveSupport.on_load(:active_record_sqlite3adapter) do
      waiting = Module.new do
        def begin_db_transaction = execute("BEGIN IMMEDIATE")

        private

        def configure_connection
          super
          (@raw_connection || @connection).busy_handler { |count| IO.select(nil, nil, nil, 0.01).nil? && count < 3_000 }
        end
      end
      prepend waiting
    end
  RUBY

  # Why this Ruby cannot make the app, with more gems; nil: it can.
  #: (*String) -> String?
  def self.missing(*gems)
    found = [*GEMS, *gems].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    "no gem #{found.join(", ")} for Ruby #{RUBY_VERSION}" unless found.empty?
  end

  attr_reader :root

  # gems: more of them in its Gemfile. env: for all of its commands; DATABASE_URL selects another database than SQLite.
  #: (?String, ?gems: Array[String], **String) -> void
  def initialize(name = "shop", gems: [], **env)
    @folder = Dir.mktmpdir("pelton-rails")
    at_exit { FileUtils.rm_rf(@folder) }
    @root = File.join(@folder, name)
    @env = { "RUBYOPT" => nil, "RAILS_ENV" => "development", **env.transform_keys(&:to_s) }
    make = "load Gem.bin_path('railties', 'rails')"
    run(RbConfig.ruby, "-e", make, "new", name, *WITHOUT, "--quiet", folder: @folder)
    gems = [*GEMS, *gems].map { |gem| "gem #{gem.inspect}\n" }
    write("Gemfile", "#{gems.join}gem \"pelton\", path: #{ROOT.inspect}\n")
    write("config/database.yml", DATABASE)
    write("config/initializers/sqlite.rb", BUSY)
  end

  # Writes a file of the app. A server that reloads code meanwhile finds the old file or all of the new one.
  #: (String, String) -> void
  def write(path, text)
    file = File.join(@root, path)
    FileUtils.mkdir_p(File.dirname(file))
    File.write("#{file}.new", text)
    File.rename("#{file}.new", file)
  end

  #: (String) -> String
  def read(path) = File.read(File.join(@root, path))

  # `bin/rails …`: returns its output. Raises if it fails.
  # stdin: what it reads.
  #: (*String, ?stdin: String, **String) -> String
  def rails(*arguments, **options) = run(RbConfig.ruby, "bin/rails", *arguments, **options)

  # `bin/rails runner CODE`
  #: (String, **String) -> String
  def runner(code, **env) = rails("runner", code, **env)

  # The result of a query, read without the app. (Not read-only: it may have to roll back what a killed process left.)
  #: (String) -> Array[Array[untyped]]
  def rows(query)
    require "sqlite3"
    database = SQLite3::Database.new(File.join(@root, "db/#{@env.fetch("RAILS_ENV")}.sqlite3"))
    database.busy_timeout = 5_000 * Guard::PATIENCE
    database.execute(query)
  ensure
    database&.close
  end

  # The command and environment of `pelton …` in the app's folder, for a child process.
  #: (*String) -> [Hash[String, String?], Array[String]]
  def pelton(*arguments)
    [environment, ["sh", "-c", 'cd "$0" && exec "$@"', @root, RbConfig.ruby, "-rbundler/setup",
                   File.join(ROOT, "exe/pelton"), *arguments]]
  end

  # The same for the program of another gem: `puma`, `unicorn`. Debian keeps some outside of their gems.
  #: (String, *String) -> [Hash[String, String?], Array[String]]
  def program(name, *arguments)
    find = "load [Gem.bin_path('#{name}', '#{name}'), '/usr/bin/#{name}'].find { |file| File.exist?(file) }"
    [environment, ["sh", "-c", 'cd "$0" && exec "$@"', @root, RbConfig.ruby, "-rbundler/setup", "-e", find, "--",
                   *arguments]]
  end

  private

  def environment = { "BUNDLE_GEMFILE" => File.join(@root, "Gemfile"), **@env }

  def run(*command, folder: @root, stdin: "", **env)
    env = environment.merge(env.transform_keys(&:to_s))
    env.delete("BUNDLE_GEMFILE") unless File.exist?(env["BUNDLE_GEMFILE"]) # there is none before `rails new`
    output, status = Open3.capture2e(env, *command, chdir: folder, stdin_data: stdin)
    raise "#{command.join(" ")} failed:\n#{output}" unless status.success?

    output
  end
end
