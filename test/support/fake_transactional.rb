# frozen_string_literal: true

require_relative "fakes"

module Fakes
  # A native producer with transactions. `steps` records its calls; `on_step` gets the name of each, and may raise.
  class TransactionalProducer < Producer
    attr_reader :steps, :open, :committed, :ack_waits
    attr_accessor :on_step, :fatal_error, :late_commit

    def initialize(...)
      super
      @steps = []
      @open = nil # messages of the open transaction
      # The last transaction: was its commit requested, and is it committed?
      @asked = @done = false
      @committed = []
      @ack_waits = []
      @gate = Mutex.new
    end

    def begin_transaction(_timeout)
      step(:begin)
      @open = [] # an open transaction of an earlier client is aborted
      @asked = @done = false
      true
    end

    def commit_transaction(_timeout)
      @asked = true
      step(:commit)
      raise ::Pelton::KafkaError.new(-172, :_STATE, "no transaction") unless @open

      finish
    end

    def abort_transaction(_timeout, ack_wait)
      step(:abort)
      @ack_waits << ack_wait
      finish if @late_commit && @asked && @open
      @open = nil
      !@done
    end

    def gap? = false

    def send_offsets(offsets, subscription, _timeout)
      step(:offsets)
      @open.concat(offsets.map { |row| [:offset, subscription, *row] })
    end

    def produce(*arguments)
      raise @fatal_error if @fatal_error
      raise ::Pelton::KafkaError.new(-172, :_STATE, "no transaction") unless @open

      super.tap { @open << arguments[1] }
    end

    def produce_many(rows, timeout, _awaited = nil)
      super.tap { @open.concat(rows.map { |row| row[:payload] }) }
    end

    private

    def finish
      @committed.concat(@open)
      @open = nil
      @done = true
    end

    # librdkafka allows one call at a time.
    def step(name)
      raise ::Pelton::ClosedError, @name if @closed
      raise "two native calls at once" unless @gate.try_lock

      begin
        @steps << name
        @on_step&.call(name, @steps.count(name))
      ensure
        @gate.unlock
      end
    end
  end

  # Fakes::Native with such producers. `prepare` is called with each.
  class TransactionalNative < Native
    attr_accessor :prepare

    def const(name)
      return super unless name == :Producer

      Opener.new(@producers, ->(*a) { TransactionalProducer.new(*a).tap { |made| @prepare&.call(made) } })
    end
  end
end

# For tests of transactions with fakes.
module FakeTransactions
  # A subscription, as far as a transaction needs one.
  Marks = Struct.new(:native) do
    def send_offsets(client, offsets, timeout)
      client.send_offsets(offsets.map { |place, offset| [*place, offset] }, :native, timeout)
    end
  end

  def setup
    super
    @native = Fakes::TransactionalNative.new
    @module = @native.to_module
    @config = Pelton::Config.new
    @config.kafka = { "transactional.id" => "t" }
    @config.reload_backoff = 0
    @bus = Pelton::Notifications.new
    @events = []
    %w[transaction.committed transaction.aborted producer.fatal producer.reloaded].each do |name|
      @bus.subscribe(name) { |event| @events << event }
    end
  end

  def teardown
    @producer&.close
    super
  end

  def producer = @producer ||= Pelton::Producer.new(@config, bus: @bus, native: @module)
  def fake = @native.producers.last
  def names = @events.map(&:name)
  def row(text = "x") = { topic: "a", payload: text }

  def error(code, fatal: false, retriable: false, abortable: false)
    Pelton::KafkaError.new(code, :X, "x", fatal, retriable, abortable)
  end

  # Prepares a native producer: the given errors for a step's first calls.
  def failing(step, *errors)
    ->(made) { made.on_step = ->(name, _) { name == step && (error = errors.shift) && raise(error) } }
  end

  # Makes it an idempotent producer, without transactions.
  def idempotent(**settings)
    @config.kafka = { "enable.idempotence" => true }
    settings.each { |name, value| @config.set(name, value) }
    @native.prepare = lambda do |made|
      made.define_singleton_method(:produce) do |*arguments|
        raise fatal_error if fatal_error
        raise Pelton::ClosedError, "fake" if @closed

        @calls << arguments
        Fakes::Delivery.new("a", 0, 0).tap { |delivery| delivery.define_singleton_method(:delivered?) { true } }
      end
    end
  end
end
