# frozen_string_literal: true

require "pelton/runtime/clock"

module Fakes
  # Native::Poller's methods, with a queue of events that a test fills: [kind, client, fact, …].
  class Poller
    attr_reader :name, :events

    def initialize(name, events = Thread::Queue.new)
      @name = name
      @events = events
    end

    # A Float behind the fields of an event is its age in seconds.
    def next_events(timeout, limit)
      deadline = timeout && (::Pelton::Clock.now + timeout)
      while deadline && @events.empty?
        return [] if ::Pelton::Clock.now >= deadline

        IO.select(nil, nil, nil, 0.005) # a queue's pop has no timeout before Ruby 3.2
      end
      taken = [@events.pop, *Array.new([@events.size, limit - 1].min) { @events.pop }].compact
      taken.map { |event| event.last.is_a?(Float) ? event : [*event, 0.0] }
    end

    def told = 0
    def wake = @events << nil
    def clients = 0
    def running? = false
  end
end
