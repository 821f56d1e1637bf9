# frozen_string_literal: true

require "rails/generators/base"

module Pelton
  module Generators
    # rails generate pelton:install
    class InstallGenerator < ::Rails::Generators::Base
      desc "Adds config/pelton.yml (settings), config/pelton.rb (routes) and app/consumers/application_consumer.rb."
      source_root File.expand_path("templates", __dir__)

      def create_settings = template("pelton.yml.tt", "config/pelton.yml")
      # `pelton migrate --write` may have written it.
      def create_routes = template("pelton.rb.tt", "config/pelton.rb", skip: true)
      def create_base_class = template("application_consumer.rb.tt", "app/consumers/application_consumer.rb")

      private

      def app_name = ::Rails.application.class.name.deconstantize.underscore
    end
  end
end
