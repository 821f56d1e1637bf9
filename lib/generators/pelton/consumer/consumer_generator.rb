# frozen_string_literal: true

require "rails/generators/named_base"

module Pelton
  module Generators
    # rails generate pelton:consumer orders
    class ConsumerGenerator < ::Rails::Generators::NamedBase
      ROUTES = "config/pelton.rb"
      private_constant :ROUTES

      desc "Adds a consumer for the topic NAME, its route in config/pelton.rb, and a test."
      source_root File.expand_path("templates", __dir__)
      class_option :topic, type: :string, desc: "the topic, if it is not NAME"

      def create_consumer
        template "consumer.rb.tt", File.join("app/consumers", class_path, "#{file_name}_consumer.rb")
      end

      def add_route
        route = "  topic #{topic.inspect}, to: \"#{class_name}Consumer\" do\n    decode :json\n  end\n"
        return create_file(ROUTES, "Pelton.routes do\n#{route}end\n") unless File.exist?(ROUTES)

        insert_into_file ROUTES, route, after: /^Pelton\.routes do\n/
      end

      def create_test
        kind = File.directory?("spec") ? "spec" : "test"
        template "consumer_#{kind}.rb.tt", File.join(kind, "consumers", class_path, "#{file_name}_consumer_#{kind}.rb")
      end

      private

      def topic = options[:topic] || file_path.tr("/", ".")
    end
  end
end
