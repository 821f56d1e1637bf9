# frozen_string_literal: true

# For Rails' own tests of jobs (test/cases of activejob): `perform_later` performs the job at once, on the same thread,
# from the message that Kafka would have. An error of the job reaches the caller, as those tests expect it.
require "pelton"
require "pelton/active_job"
require "pelton/testing"

# In place of the producer.
class InlineProducer
  # As much of a delivery as the adapter uses. reports: of each message, [topic, partition, offset, nil]
  Delivery = Struct.new(:reports) do
    def wait(**) = self
    def topic = reports.first[0]
    def partition = reports.first[1]
    def offset = reports.first[2]
  end

  # What Pelton gives a consumer, as much as jobs use: nobody listens to events.
  module Context
    def self.wanted?(_event) = false
  end

  def initialize
    @offset = -1
    @consumer = Pelton::ActiveJob::JobConsumer.allocate
    @consumer.instance_variable_set(:@pelton, Context)
  end

  def produce_async(**message)
    made = Pelton::Testing::Message.of(message, 0, @offset += 1)
    @consumer.process(made)
    Delivery.new([[made.topic, 0, made.offset, nil]])
  end

  # Those tests do not wait for the time either.
  def produce_later(at:, **message)
    produce_async(**message)
    "id at #{at}"
  end

  def produce_many_async(messages)
    Delivery.new(messages.flat_map { |message| produce_async(**message).reports })
  end
end

Pelton.app.producer = InlineProducer.new
ActiveJob::Base.queue_adapter = :pelton
