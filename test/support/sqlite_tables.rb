# frozen_string_literal: true

require "tmpdir"
begin
  require "sqlite3"
  require_relative "outbox_kit"
rescue LoadError
  nil # not of every Ruby: the tests say so
end

# The tables of the outbox or the inbox, on SQLite in a folder of the test's own. Skips where the gems are missing.
module SqliteTables
  # name: of the generator. timeout: milliseconds that a writer waits for another one.
  #: (?String, ?timeout: Integer) -> void
  def open_tables(name = "outbox", timeout: 20_000)
    skip "no gems activerecord and sqlite3 for Ruby #{RUBY_VERSION}" unless defined?(OutboxKit) && defined?(SQLite3)

    @folder = Dir.mktmpdir
    OutboxKit.connect({ adapter: "sqlite3", database: "#{@folder}/db.sqlite3", timeout: timeout })
    OutboxKit.migrate(name)
  end

  # Not for a test that was skipped.
  def close_tables
    return unless @folder

    ActiveRecord::Base.remove_connection
    FileUtils.rm_rf(@folder)
  end
end
