# frozen_string_literal: true

{
  "Pelton::Tracing.new(service" => { after: -> { assert_kind_of Pelton::Tracing, Pelton.config.tracer } },
  "config/initializers/pelton.rb" => { after: -> { assert_kind_of Pelton::Tracing, Pelton.config.tracer } },
  "tracer.span(\"charge\")" => {
    before: lambda do
      require "pelton/tracing"
      Pelton.configure { |config| config.tracer = Pelton::Tracing.new(exporter: []) }
    end
  },
  "tracer.span(\"checkout\", \"order.id\"" => {
    before: lambda do
      require "pelton/tracing"
      Pelton.configure { |config| config.tracer = Pelton::Tracing.new(exporter: (@spans = [])) }
    end,
    after: -> { assert_equal ["create orders", "send orders", "checkout"], @spans.map(&:name) }
  }
}
