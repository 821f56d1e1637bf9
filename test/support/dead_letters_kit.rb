# frozen_string_literal: true

require_relative "coordinator_kit"
require "pelton/testing/buffered_producer"

# A coordinator whose consumer fails, and a producer that keeps its messages.
module DeadLettersKit
  include CoordinatorKit

  def setup
    super
    topics = { "dead" => 2, "other" => 1 }
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: topics)
  end

  def teardown
    @producer.close
    super
  end

  def message_at(offset, payload = "x", partition: 0, **more)
    Fakes::Message.new("orders", partition, offset, payload, **more)
  end

  # A coordinator whose consumer fails at these offsets.
  def failing(*offsets, messages: nil, **settings)
    script { |consumer| raise IOError, "bad" if consumer.messages.any? { |message| offsets.include?(message.offset) } }
    settings = { dead_letters: "dead", retries: 0, backoff: 0..0 }.merge(settings)
    coordinator(**settings).receive(messages ? Fakes::Batch.new(messages) : batch(0, 1, 2))
    work
  end

  def work_all = (work until idle?)
  def marked = @ownership.marks.map(&:first)
  def dead(topic = "dead") = @producer.messages(topic)
end
