# frozen_string_literal: true

# A server of 50 topics that has nothing to do takes at most 60 MB more than Ruby alone.

require "support/scenario"

TOPICS = 50
MOST = 60 << 20

CHILD = <<~RUBY
  def resident = File.read("/proc/self/status")[/^VmRSS:\\s+(\\d+)/, 1].to_i * 1024
  alone = resident
  require "pelton"
  servers, *topics = ARGV
  app = Pelton::App.new
  app.configure { |config| config.kafka = { "bootstrap.servers" => servers } }
  assigned = Thread::Queue.new
  app.subscribe("partition.assigned") { |event| assigned << event[:topic] }
  reader = Class.new(Pelton::Consumer) { def consume; end }
  app.routes { group("rest-\#{topics.first}") { topics.each { |name| topic(name, to: reader) } } }
  app.start
  topics.size.times { assigned.pop }
  puts resident - alone
  app.stop
RUBY

Scenario.run do
  topics = Array.new(TOPICS) { topic }
  child = ruby("-e", CHILD, bootstrap, *topics)
  eventually(120, -> { child.output }) { child.code }
  equal(0, child.code, child.output)
  more = Integer(child.output.lines.last)
  puts "#{more >> 20} MB more than Ruby alone"
  check(more.between?(1, MOST), "#{more >> 20} MB more than Ruby alone")
end
