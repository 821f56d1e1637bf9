# frozen_string_literal: true

require "erb"
require "pelton"

unless Pelton::Parallel::RactorWorker.available?
  puts "templates.rb needs Ractors as Ruby 4.0 has them; this is Ruby #{RUBY_VERSION}"
  exit 77 # skipped
end

# ERB templates in Ractors: reports that are rendered side by side. A template becomes a method (def_method), for
# `result(binding)` would take objects of the main Ractor with it. Orders go in frozen, pages come out frozen: nothing
# is copied.
Order = Data.define(:id, :customer, :lines)
Line = Data.define(:name, :count, :price)

# Renders one order.
class Invoice
  def self.call(order) = new(order).render

  def initialize(order) = @order = order
  def total = @order.lines.sum { |line| line.count * line.price }

  template = <<~HTML
    <h1>Invoice <%= @order.id %> for <%= ERB::Util.h(@order.customer) %></h1>
    <table>
    <% @order.lines.each do |line| %>
      <tr><td><%= ERB::Util.h(line.name) %></td><td><%= line.count %></td><td><%= line.price %></td></tr>
    <% end %>
    </table>
    <p>Total: <%= total %></p>
  HTML
  ERB.new(template, trim_mode: "<>").def_method(self, "render")
end

orders = Array.new(50) do |id|
  lines = Array.new(200) { |number| Line.new("Part <#{number}>", number % 7, 3) }
  Ractor.make_shareable(Order.new(id, "Customer #{id} & sons", lines))
end

pool = Pelton::RactorPool.new(size: 2)
pages = pool.map(orders, Invoice)
puts "#{pages.size} pages, #{pages.sum(&:bytesize)} bytes; the first one begins with", pages.first.lines.first
raise "wrong" unless pages == orders.map { |order| Invoice.call(order) } && pages.all?(&:frozen?)

# One that fails harms no other; results come while others are still being rendered.
broken = Ractor.make_shareable(Order.new(50, "nobody", nil))
pool.dispatch([*orders.first(3), broken, orders.last], Invoice).each_with_index do |(page, error), index|
  puts error ? "#{index}: #{error.message}" : "#{index}: #{page.bytesize} bytes"
end
pool.close
