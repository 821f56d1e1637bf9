# frozen_string_literal: true

require "support/coordinator_kit"

# A coordinator whose topic has `concurrency`. Jobs are fibers, so several can run at a time.
module KeyedKit
  include CoordinatorKit

  def setup
    super
    @under_way = {}
    # Called by each job when the test lets it go on.
    @deed = ->(_) {}
    script do |consumer|
      offsets = consumer.messages.map(&:offset)
      Fiber.yield offsets
      @deed.call(consumer)
    end
  end

  # keys: "aab" is three messages; "-" is none.
  def keyed(keys, from: 0, **settings)
    coordinator(concurrency: 3, **settings)
    3.times { work } if @log.empty?
    messages = keys.chars.each_with_index.map do |key, index|
      Fakes::Message.new("orders", 0, from + index, "x", key: key == "-" ? nil : key)
    end
    others = @jobs.size
    seek_count = @ownership.seek_count
    stale = -> { @ownership.seek_count != seek_count }
    coordinator.receive(batch = Fakes::Batch.new(messages, seek_count: seek_count, stale: stale))
    work if others.zero? && !idle? # the job that asks for keys
    batch
  end

  # Starts all jobs, those that follow from sorting by key included: [[offsets], …]
  def start
    left = @jobs.size
    begun = []
    while left.positive?
      fiber = Fiber.new { run_one }
      offsets = fiber.resume
      left = offsets == :sort ? @jobs.size : left - 1
      begun << (offsets if offsets.is_a?(Array)) unless offsets == :sort
      @under_way[offsets] = fiber if fiber.alive?
    end
    begun
  end

  # Returns the kind of the job.
  def run_one
    job = Thread.handle_interrupt(Object => :never) { @jobs.pop.tap(&:call) }
    job.kind
  end

  def finish(*offsets) = @under_way.delete(offsets).resume
  def marked = @ownership.marks.map(&:first)
end
