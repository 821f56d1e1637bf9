# frozen_string_literal: true

require "support/coordinator_kit"
require "pelton/testing/buffered_producer"

# A coordinator whose consumer uses transactions, with the app's producer or with its own.
module TransactionalKit
  include CoordinatorKit

  def setup
    super
    @owner.producer = @producer = transactional("app")
    @owner.opener = ->(id) { transactional(id) }
  end

  def teardown
    [@producer, *@owner.opened.map(&:last)].each { |producer| producer.close(timeout: 0) }
    super
  end

  def transactional(id)
    Pelton::Testing::BufferedProducer.new(bus: @bus, kafka: { "transactional.id" => id })
  end

  def consume(*offsets, **settings, &block)
    script(&block)
    coordinator(**settings).receive(batch(*offsets))
    work until idle?
  end

  def marked = @ownership.marks.map(&:first)
  def sent = @ownership.sent.map { |offsets| offsets.fetch(["orders", 0]) }
  def out(producer = @producer) = producer.messages("out").map(&:raw_payload)
  def errors = named("error.occurred").map { |event| event[:error] }
end
