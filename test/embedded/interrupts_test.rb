# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Interrupts of what a consumer waits for, through real clients.
class EmbeddedInterruptsTest < Minitest::Test
  include EmbeddedApp

  # Seeks from a thread that is interrupted at any time, while the partition is worked on: some of them take place
  # although nobody waited. Each time it goes on, without a gap.
  def test_seeks_that_are_interrupted_lose_nothing
    name = topic
    seen = @seen
    born = Thread::Queue.new
    reader = Class.new(Pelton::Consumer) do
      define_method(:assigned) { born << self }
      define_method(:consume) { messages.each { |message| seen << message.offset } }
    end
    app = app(max_messages: 7) { topic(name, to: reader) }
    50.times { |round| produce(app, name, Array.new(4) { |at| "#{round} #{at}" }) }
    app.start
    consumer = born.pop
    random = Random.new(1)
    read = []
    60.times do |round|
      interrupted(random) { consumer.seek(random.rand(200)) }
      read << seen.pop(true) until seen.empty?
      assert consumer.seek(100 + round), "the next one finds nothing in its way"
    end
    assert consumer.seek(0)
    produce(app, name, ["last"])
    read << @seen.pop until read.last == 200
    assert_equal [*0..200], read.last(201)
    assert app.stop
    assert_empty errors
  end

  private

  # Whatever it was doing by then.
  def interrupted(random, &deed)
    thread = Thread.new(&deed)
    random.rand(4).times { Thread.pass }
    thread.kill
    thread.join
  end
end
