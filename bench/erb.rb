# How long do five ERB templates of different sizes, and 5 to 50 reports, take here, in threads, in Ractors?
# frozen_string_literal: true

require "erb"
require_relative "support"
require "pelton/decoding/parallel/parallel"

# KB of the pages that the five templates give, and how many reports.
TEMPLATES = [35, 25, 8, 68, 60].freeze
REPORTS = [5, 10, 20, 50].freeze
WORKERS = 2
BYTES = Bench.some(20_000_000) # of pages for each figure
A_ROW = 100 # bytes, about

Row = Struct.new(:name, :amount, :price)

# A page of so many KB, by a template that is a method.
class Page
  # The work: what is given is a frozen list of rows.
  def self.call(rows) = new(rows).render

  def initialize(rows) = @rows = rows

  ERB.new(<<~HTML, trim_mode: "<>").def_method(self, "render")
    <h1>Report of <%= @rows.size %> rows</h1>
    <table>
    <% @rows.each_with_index do |row, index| %>
    <tr class="<%= index.even? ? "even" : "odd" %>"><td><%= ERB::Util.html_escape(row.name) %></td><td><%= row.amount %></td><td><%= format("%.2f", row.price) %></td></tr>
    <% end %>
    </table>
  HTML
end

def rows(kilobytes)
  made = Array.new(kilobytes * 1024 / A_ROW) { |number| Row.new("Part <#{number}>", number % 7, number / 3.0).freeze }
  defined?(Ractor) ? Ractor.make_shareable(made) : made.freeze
end

# ms for all of these inputs.
def render(inputs, engine)
  expected = inputs.map { |input| Page.call(input) }
  raise "other pages" unless engine.dispatch(inputs, Page).values == expected

  rounds = [BYTES / expected.sum(&:bytesize), 3].max
  Bench.seconds { rounds.times { engine.dispatch(inputs, Page).values } } * 1000 / rounds
ensure
  engine.close
end

def engine(kind)
  Warning[:experimental] = false
  kind == :inline ? Pelton::Parallel.engine(kind) : Pelton::Parallel.engine(kind, size: WORKERS, min: 1, task_size: 1)
end

Bench.measure("erb", warm_up: false) do |bench|
  bench.chart("ms to render, #{WORKERS} workers", "ms")
  kinds = { "linear" => :inline, "threads" => :thread }
  kinds["Ractors"] = :ractor if Pelton::Parallel::RactorWorker.available?
  works = { "5 templates" => TEMPLATES.map { |size| rows(size) } }
  REPORTS.each { |count| works["#{count} reports"] = [rows(20)] * count }
  works.each do |work, inputs|
    kinds.each do |name, kind|
      bench.case("#{work}, #{name}", "ms", vs: kind == :inline ? nil : "#{work}, linear") do
        Bench.forked { render(inputs.freeze, engine(kind)) }
      end
    end
  end
end
