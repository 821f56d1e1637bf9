# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Of one partition no more than `limit` messages begin within any `every` seconds. Only those that begin count:
      # where messages are processed one by one, each when it is its turn.
      class Throttle
        # Messages that begin within this part of `every` are counted together, as of the last one's time.
        GRAIN = 0.001
        private_constant :GRAIN

        def self.for(topic, _bus) = topic.throttle && new(*topic.throttle)

        #: (Integer, Numeric, ?clock: Clock) -> void
        def initialize(limit, every, clock: Clock)
          @limit = limit
          @every = every
          @clock = clock
          # [[when, how many, the first one's offset, when the first one began], …] that began within the last `every`
          # seconds, and their sum; guarded by @lock.
          @begun = []
          @sum = 0
          @lock = Mutex.new
        end

        # They begin now, all at once.
        #: (Messages) -> (Messages | Numeric)
        def ready(messages)
          room(messages) { |some, now| count(some.size, some.first_offset, now) }
        end

        # How many may begin, one by one; each asks `begin?` when it does.
        #: (Messages) ?{ (Messages, Float) -> void } -> (Messages | Numeric)
        def room(messages)
          @lock.synchronize do
            now = forget
            room = [@limit - @sum, messages.size].min
            next @begun.first.first + @every - now unless room.positive?

            messages.only(messages.first(room)).tap { |some| yield some, now if block_given? }
          end
        end

        # May one more begin? Then it does.
        #: () -> bool
        def begin?
          @lock.synchronize do
            now = forget
            next false unless @sum < @limit

            last = @begun.last
            next count(1, nil, now) if last.nil? || last[2] || now - last[3] > @every * GRAIN

            last[0] = now
            last[1] += 1
            @sum += 1
            true
          end
        end

        # After all these, which were `ready`, did not begin.
        #: (Messages) -> void
        def give_back(messages)
          @lock.synchronize do
            found = @begun.rindex { |_, _, offset| offset == messages.first_offset }
            @sum -= @begun.delete_at(found)[1] if found
          end
        end

        private

        # What began long ago. Returns the time.
        def forget
          now = @clock.now
          @sum -= @begun.shift[1] while @begun.any? && @begun.first.first + @every <= now
          now
        end

        def count(size, offset, now)
          @begun << [now, size, offset, now]
          @sum += size
          true
        end
      end
    end
  end
end
