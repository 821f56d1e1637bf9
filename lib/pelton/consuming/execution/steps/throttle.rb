# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Begins at most `limit` messages of a partition within any `every` seconds. With `process`, a message counts when
      # it begins, not when its job does.
      class Throttle
        # Messages that begin within this part of `every` are counted as one group, with the time of the last of them.
        GRAIN = 0.001
        private_constant :GRAIN

        def self.for(topic, _bus) = topic.throttle && new(*topic.throttle)

        #: (Integer, Numeric, ?clock: Clock) -> void
        def initialize(limit, every, clock: Clock)
          @limit = limit
          @every = every
          @clock = clock
          # [[time, count, first offset, time of the first message], …] of the messages that began within the last
          # `every` seconds, and the sum of the counts. Guarded by @lock.
          @begun = []
          @sum = 0
          @lock = Mutex.new
        end

        # The first of these messages that may begin now, which then all begin; or seconds until one may.
        #: (Messages) -> (Messages | Numeric)
        def ready(messages)
          room(messages) { |some, now| count(some.size, some.first_offset, now) }
        end

        # The first of these messages that may begin now. Each of them asks `begin?` when it does.
        #: (Messages) ?{ (Messages, Float) -> void } -> (Messages | Numeric)
        def room(messages)
          @lock.synchronize do
            now = forget
            room = [@limit - @sum, messages.size].min
            next @begun.first.first + @every - now unless room.positive?

            messages.only(messages.first(room)).tap { |some| yield some, now if block_given? }
          end
        end

        # May another message begin? If so, it is counted.
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

        # These messages were `ready`, but did not begin after all.
        #: (Messages) -> void
        def give_back(messages)
          @lock.synchronize do
            found = @begun.rindex { |_, _, offset| offset == messages.first_offset }
            @sum -= @begun.delete_at(found)[1] if found
          end
        end

        private

        # Forgets what began more than `every` seconds ago. Returns the time.
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
