# frozen_string_literal: true

require "active_record"
require "erb"
require "pelton"

# The tables of the outbox in a database without a Rails app.
module OutboxKit
  TEMPLATE = File.expand_path("../../lib/generators/pelton/%<name>s/templates/migration.rb.tt", __dir__)

  # SQLite's own wait for a lock holds the GVL, so a thread of this process that has the lock could not go on.
  module Waiting
    STEP = 0.005

    def busy_timeout(milliseconds)
      busy_handler do |count|
        IO.select(nil, nil, nil, STEP)
        count * STEP * 1000 < milliseconds
      end
    end
  end

  module_function

  #: (String | Hash[Symbol, untyped], ?pool: Integer) -> void
  def connect(database, pool: 20)
    options = database.is_a?(String) ? { url: database } : database
    if options[:adapter] == "sqlite3" || options[:url].to_s.start_with?("sqlite3:")
      require "sqlite3"
      SQLite3::Database.prepend(Waiting)
    end
    ActiveRecord::Base.legacy_connection_handling = false if ActiveRecord::VERSION::STRING.start_with?("6.")
    ActiveRecord::Base.establish_connection({ pool: pool, reaping_frequency: 0, **options })
  end

  # Runs a generator's migration.
  #: (?String) -> void
  def migrate(name = "outbox")
    migration_version = "[#{ActiveRecord::VERSION::STRING.to_f}]"
    code = ERB.new(File.read(format(TEMPLATE, name: name))).result_with_hash(migration_version: migration_version)
    scope = Module.new.tap { |mod| mod.module_eval(code) }
    ActiveRecord::Migration.suppress_messages { scope.const_get("CreatePelton#{name.capitalize}").migrate(:up) }
    load_schema
  end

  # The first insert looks the indexes up, in its transaction. If another thread of SQLite's writes between the two, the
  # insert is refused at once ("database is locked"), because neither could go on.
  def load_schema
    connection = ActiveRecord::Base.connection
    connection.tables.each { |table| connection.schema_cache.add(table) }
  end
end
