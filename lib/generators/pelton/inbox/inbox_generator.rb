# frozen_string_literal: true

require "rails/generators/active_record"

module Pelton
  module Generators
    # rails generate pelton:inbox
    class InboxGenerator < ::Rails::Generators::Base
      include ::ActiveRecord::Generators::Migration

      desc "Adds a migration with the table of the inbox."
      source_root File.expand_path("templates", __dir__)

      def create_migration_file
        migration_template "migration.rb.tt", File.join(db_migrate_path, "create_pelton_inbox.rb")
      end

      private

      def migration_version = "[#{::ActiveRecord::VERSION::STRING.to_f}]"
    end
  end
end
