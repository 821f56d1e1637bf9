# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "pelton/cli/cli"
require "pelton/cli/doctor"
require "support/registry_double"

# What `pelton doctor` says of the schema registries of Avro routes and serializers.
class DoctorRegistriesTest < Minitest::Test
  include RegistryDoubles

  class Consumer < Pelton::Consumer
    def process(_message) = nil
  end

  # [facts, findings]
  def examine(*registries, middleware: [], timeout: 10 * Guard::PATIENCE)
    app = Pelton::App.new
    app.configure { |config| config.group_id = "billing" }
    app.routes do
      registries.each_with_index do |registry, index|
        topic("orders#{index}", to: Consumer) { decode :avro, registry: registry }
      end
      topic("plain", to: Consumer) { decode :json }
    end
    report = Pelton::CLI::Doctor::Report.new
    Pelton::CLI::Doctor::Registries.new(app.routes.groups(app.config), middleware, timeout).examine(report)
    findings = report.findings.map { |finding| finding.values_at(:level, :about, :text) }
    [report.facts.fetch("schema registries", {}), findings]
  end

  def client(double) = Pelton::Registry.new(double.url, retries: 0)

  def test_registries_that_answer_have_no_finding
    with, without = Array.new(2) { new_double }
    with.add("orders0-value", '"string"')
    same = client(with)
    facts, findings = examine(same, same, client(without))
    assert_equal({ with.url => "answers", without.url => "answers" }, facts)
    assert_empty findings
    assert_equal [["GET /subjects/orders0-value/versions/latest"], ["GET /subjects/orders2-value/versions/latest"]],
                 [with.requests, without.requests]
    assert_equal [{}, []], examine
  end

  def test_registries_of_serializers_are_asked_unless_a_route_has_them
    double, down = Array.new(2) { new_double }
    read, write = [double, down].map { |registry| client(registry) }
    down.close
    middleware = [->(message) { message }, Pelton::Avro::Serializer.new(registry: read),
                  Pelton::Avro::Serializer.new(registry: write, topics: ["receipts"]),
                  Pelton::Avro::Serializer.new(schema: '"string"')]
    facts, findings = examine(read, middleware: middleware)
    assert_equal({ double.url => "answers", down.url => "no answer" }, facts)
    assert_equal [[:error, "middleware Pelton::Avro::Serializer"]], (findings.map { |finding| finding.first(2) })
    assert_match(/subject receipts-value.* does not answer/, findings.first.last)
    assert_equal ["GET /subjects/orders0-value/versions/latest"], double.requests
  end

  # Doctor asked brokers only, and named no registry.
  def test_registry_that_is_down_is_named
    double = new_double
    registry = client(double)
    double.close
    facts, findings = examine(registry)
    assert_equal({ double.url => "no answer" }, facts)
    assert_equal [[:error, "topic orders0"]], (findings.map { |finding| finding.first(2) })
    assert_match(/#{double.url} does not answer: .*refused/, findings.first.last)
  end

  def test_registry_that_hangs_ends_at_the_timeout
    double = new_double
    double.fail(:hang)
    facts, findings = examine(client(double), timeout: 0.1)
    assert_equal({ double.url => "no answer" }, facts)
    assert_match(/subject orders0-value: no answer within 0.1 s, from .*#{double.url}/, findings.first.last)
  end

  def test_wrong_password_is_an_error_and_a_missing_right_a_warning
    { 401 => :error, 403 => :warning, 404 => :error, 500 => :error }.each do |status, level|
      double = new_double
      double.fail(status)
      facts, findings = examine(client(double))
      assert_equal({ double.url => "refuses the request (HTTP #{status})" }, facts)
      assert_equal [level], findings.map(&:first)
    end
  end
end
