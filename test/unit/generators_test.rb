# frozen_string_literal: true

require_relative "../test_helper"
require "tmpdir"
begin
  require "rails/generators"
rescue LoadError
  nil # this Ruby has no gem railties: each test says so
end
if defined?(Rails::Generators)
  require "generators/pelton/consumer/consumer_generator"
  require "generators/pelton/inbox/inbox_generator"
  require "generators/pelton/install/install_generator"
  require "generators/pelton/outbox/outbox_generator"
end

# `rails generate pelton:consumer` and `rails destroy pelton:consumer`, in an empty folder. test/integration/rails.rb
# runs them in an application.
class GeneratorsTest < Minitest::Test
  def setup
    skip "no gem railties for Ruby #{RUBY_VERSION}" unless defined?(Rails::Generators)

    @folder = Dir.mktmpdir
  end

  def teardown = @folder && FileUtils.rm_rf(@folder)

  def generate(*arguments, behavior: :invoke)
    output, errors = capture_io do
      Pelton::Generators::ConsumerGenerator.start(arguments, destination_root: @folder, behavior: behavior)
    end
    output + errors
  end

  def destroy(*arguments) = generate(*arguments, behavior: :revoke)
  def files = Dir.glob("**/*", base: @folder).select { |path| File.file?(File.join(@folder, path)) }.sort
  def read(path) = File.read(File.join(@folder, path))
  def routes = read("config/pelton.rb").scan(/topic (".*") do$/).flatten
  def write_routes(text) = FileUtils.mkdir_p("#{@folder}/config") && File.write("#{@folder}/config/pelton.rb", text)

  {
    "orders" => ["orders", "OrdersConsumer", "orders_consumer"],
    "OrderEvents" => ["order_events", "OrderEventsConsumer", "order_events_consumer"],
    "orders_consumer" => ["orders", "OrdersConsumer", "orders_consumer"],
    "OrdersConsumer" => ["orders", "OrdersConsumer", "orders_consumer"],
    "shop.orders" => ["shop.orders", "ShopOrdersConsumer", "shop_orders_consumer"],
    "order-events" => ["order-events", "OrderEventsConsumer", "order_events_consumer"],
    "admin/orders" => ["admin.orders", "Admin::OrdersConsumer", "admin/orders_consumer"],
    "Admin::Orders" => ["admin.orders", "Admin::OrdersConsumer", "admin/orders_consumer"]
  }.each do |name, (topic, consumer, file)|
    define_method("test_the_consumer_#{name.gsub(/\W/, "_")}_of_#{topic.tr(".", "_")}") do
      generate(name)
      assert_equal ["#{topic.inspect}, to: #{consumer.inspect}"], routes
      assert_match(/^class #{consumer} < ApplicationConsumer$/, read("app/consumers/#{file}.rb"))
      assert_includes read("test/consumers/#{file}_test.rb"), "produce #{topic.inspect}"
      assert_includes files, "app/consumers/application_consumer.rb"
    end
  end

  ["it's", "1orders", "orders!", "ad min/orders"].each do |name|
    define_method("test_#{name.gsub(/\W/, "_")}_is_no_name_of_a_class") do
      assert_includes generate(name), "#{name}: no class has the name"
      assert_empty files
    end
  end

  ["old orders", "grüße", "..", "a" * 250].each do |topic|
    define_method("test_a_topic_that_kafka_refuses_is_not_written_to_the_routes_#{topic[0, 10].gsub(/\W/, "_")}") do
      assert_includes generate("orders", "--topic", topic), "#{topic}: a topic's name is a String of 1 to 249"
      assert_empty files
    end
  end

  def test_a_consumer_named_application_does_not_replace_the_parent_of_all
    generate("orders")
    before = files
    %w[application Application application_consumer].each do |name|
      assert_includes generate(name, "--force"), "#{name}: ApplicationConsumer is the parent of the other consumers"
      assert_includes destroy(name), "#{name}: ApplicationConsumer is the parent of the other consumers"
    end
    assert_equal before, files
    assert_includes read("app/consumers/application_consumer.rb"), "class ApplicationConsumer < Pelton::Consumer\n"
  end

  def test_the_option_topic_names_the_topic
    generate("orders", "--topic", "legacy.orders-v1")
    assert_equal ['"legacy.orders-v1", to: "OrdersConsumer"'], routes
  end

  def test_destroy_leaves_what_other_consumers_need
    generate("orders")
    generate("payments")
    destroy("orders")
    assert_equal ['"payments", to: "PaymentsConsumer"'], routes
    assert_equal %w[app/consumers/application_consumer.rb app/consumers/payments_consumer.rb config/pelton.rb
                    test/consumers/payments_consumer_test.rb], files
  end

  def test_a_second_run_adds_no_second_route_beside_an_edited_one
    generate("orders")
    text = read("config/pelton.rb").sub("decode :json", "decode :json\n    delay 5")
    write_routes(text)
    generate("orders")
    assert_equal text, read("config/pelton.rb")
  end

  def test_routes_in_another_style_are_left_alone_and_the_route_is_printed
    text = "Pelton.routes { topic \"payments\", to: \"PaymentsConsumer\" }\n"
    write_routes(text)
    output = generate("orders")
    assert_match(/skip.*config.pelton\.rb has no line "Pelton\.routes do"/, output)
    assert_includes output, 'topic "orders", to: "OrdersConsumer" do'
    assert_equal text, read("config/pelton.rb")
    destroy("orders")
    assert_equal text, read("config/pelton.rb")
  end

  def test_a_route_in_a_comment_is_none
    write_routes(File.read(File.expand_path("../../lib/generators/pelton/install/templates/pelton.rb.tt", __dir__)))
    generate("orders")
    assert_equal ['"orders", to: "OrdersConsumer"'] * 2, routes
  end

  def test_the_installation_keeps_the_routes_that_pelton_migrate_wrote
    write_routes(text = "Pelton.routes { active_jobs \"default\" }\n")
    generator = Pelton::Generators::InstallGenerator.new([], {}, destination_root: @folder)
    output, = capture_io { generator.create_routes }
    assert_match(/skip.*config.pelton\.rb/, output)
    assert_equal text, read("config/pelton.rb")
  end

  def test_a_comment_behind_the_first_line_of_the_routes_is_no_obstacle
    write_routes("Pelton.routes do # of this shop\nend\n")
    generate("orders")
    assert_equal ['"orders", to: "OrdersConsumer"'], routes
  end

  def test_an_app_with_rspec_gets_a_spec
    FileUtils.mkdir_p("#{@folder}/spec")
    generate("orders")
    assert_includes files, "spec/consumers/orders_consumer_spec.rb"
  end

  { "Inbox" => %i[pelton_inbox], "Outbox" => %i[pelton_outbox pelton_outbox_relays] }.each do |name, tables|
    define_method("test_the_migration_of_the_#{name.downcase}_has_its_tables") do
      generator = Pelton::Generators.const_get("#{name}Generator")
      capture_io { generator.start([], destination_root: @folder) }
      path = files.grep(%r{\Adb/migrate/\d+_create_pelton_#{name.downcase}\.rb\z}).first
      assert_match(/\Aclass CreatePelton#{name} < ActiveRecord::Migration\[\d\.\d\]$/, read(path))
      assert_equal tables, read(path).scan(/create_table :(\w+)/).flatten.map(&:to_sym)
      capture_io { generator.start([], destination_root: @folder, behavior: :revoke) }
      assert_empty files
    end
  end
end
