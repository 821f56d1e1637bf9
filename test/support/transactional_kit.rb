# frozen_string_literal: true

require "support/coordinator_kit"
require "pelton/testing/buffered_producer"
require "timeout"

# A coordinator whose consumer uses transactions, with the app's producer or with its own.
module TransactionalKit
  include CoordinatorKit

  def setup
    super
    # The ids of the producers whose transactions were initialized.
    @initialized = []
    @owner.producer = @producer = transactional("app")
    @owner.opener = ->(id, _facts) { transactional(id) }
  end

  def teardown
    [@producer, *@owner.opened.map(&:last)].each { |producer| producer.close(timeout: 0) }
    super
  end

  def transactional(id)
    initialized = @initialized
    Pelton::Testing::BufferedProducer.new(bus: @bus, kafka: { "transactional.id" => id }).tap do |producer|
      producer.define_singleton_method(:init_transactions) { super().tap { initialized << id } }
    end
  end

  # The first commit of a block that returns :slow is carried out, but then its caller is interrupted.
  def interrupt_commit
    original = @producer.method(:transaction)
    left = 1
    @producer.define_singleton_method(:transaction) do |&block|
      value = original.call(&block)
      raise Timeout::Error, "execution expired" if value == :slow && (left -= 1).zero?

      value
    end
  end

  def consume(*offsets, **settings, &block)
    script(&block)
    coordinator(**settings).receive(batch(*offsets))
    work until idle?
  end

  def marked = @ownership.marks.map(&:first)
  def sent = @ownership.sent.map { |offsets| offsets.fetch(["orders", 0]) }
  def out(producer = @producer) = producer.messages("out").map(&:raw_payload)
  def aborts = named("transaction.aborted").map { |event| event[:error] }
  def errors = named("error.occurred").map { |event| event[:error] }
end
