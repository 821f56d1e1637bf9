# frozen_string_literal: true

require "rails/generators/named_base"
require "pelton/settings/types"

module Pelton
  module Generators
    # rails generate pelton:consumer orders
    class ConsumerGenerator < ::Rails::Generators::NamedBase
      BASE = "ApplicationConsumer"
      BASE_CLASS = "app/consumers/application_consumer.rb"
      ROUTES = "config/pelton.rb"
      BLOCK = /^Pelton\.routes do\b.*\n/
      CLASS = /\A[A-Z]\w*(::[A-Z]\w*)*\z/
      private_constant :BASE, :BASE_CLASS, :ROUTES, :BLOCK, :CLASS

      desc "Adds a consumer for the topic NAME, its route in config/pelton.rb, and a test."
      source_root File.expand_path("templates", __dir__)
      class_option :topic, type: :string, desc: "the topic, if it is not NAME"

      # A route with a wrong name would keep the application from starting, and so this generator from taking it back.
      def check_names
        raise Thor::Error, "#{name}: no class has the name #{consumer}" unless consumer.match?(CLASS)
        raise Thor::Error, "#{name}: #{consumer} is the parent of the other consumers" if consumer == BASE

        expected, test, = Settings::TYPES.fetch(:name)
        raise Thor::Error, "#{topic}: a topic's name is #{expected}" unless test.call(topic)
      end

      def create_base_class
        return if behavior == :revoke || present(BASE_CLASS)

        template File.expand_path("../install/templates/application_consumer.rb.tt", __dir__), BASE_CLASS
      end

      def create_consumer
        template "consumer.rb.tt", File.join("app/consumers", class_path, "#{file_name}_consumer.rb")
      end

      def add_route
        written = present(ROUTES)
        return create_file(ROUTES, "Pelton.routes do\n#{route}end\n") unless written || behavior == :revoke
        return say_status(:identical, ROUTES, :blue) if behavior == :invoke && written.match?(/^[^#\n]*"#{consumer}"/)
        return insert_into_file(ROUTES, route, after: BLOCK) if written&.match?(BLOCK)

        say_status :skip, "#{ROUTES} has no line \"Pelton.routes do\". The route:\n#{route}", :yellow if written
      end

      def create_test
        kind = File.directory?(File.join(destination_root, "spec")) ? "spec" : "test"
        template "consumer_#{kind}.rb.tt", File.join(kind, "consumers", class_path, "#{file_name}_consumer_#{kind}.rb")
      end

      private

      # "order-events" and "shop.orders" are usual topics. "orders_consumer" would be a consumer's consumer.
      def file_name = super.tr(".-", "_").delete_suffix("_consumer")

      def consumer = @consumer ||= "#{class_name}Consumer"
      def route = "  topic #{topic.inspect}, to: #{consumer.inspect} do\n    decode :json\n  end\n"

      # Not file_name, if Kafka's name has what a file's name has not.
      def topic
        @topic ||= options[:topic] || begin
          last = name[%r{[^/:]*\z}]
          [*class_path, last.match?(/[.-]/) ? last : file_name].join(".")
        end
      end

      # The text of a file of the application; nil: there is none.
      def present(path)
        file = File.join(destination_root, path)
        File.read(file) if File.exist?(file)
      end
    end
  end
end
