# frozen_string_literal: true

class SmallWorld
  # The listener's role, and the subscription's.
  class Surroundings
    attr_accessor :owned
    attr_reader :time, :complaints, :position

    def initialize(world, position)
      @world = world
      @position = position
      @owned = true
      @complaints = []
    end

    def retry_at(_, time) = @time = time
    def ended(_ = nil) = @ended = true
    def over? = @ended
    def failed(error, _) = @complaints << error
    def critical(error) = @complaints << error
    def producer = self
    def copier = nil
    def transactional? = false
    def partition_count(_) = 1
    def produce_copy(**copy) = @world.copied(copy[:headers]["pelton.offset"].to_i)
    def commit = true

    # Batches that were given before are stale from the middle of the seek on.
    def seek(_, _, offset)
      offset = yield offset
      @world.sought(offset)
      offset
    end

    # A seek moves the position. It may not pass a message that was not given up.
    def commit_offset(_, _, offset, *)
      @world.marked(offset) if @owned
      @owned && (@position = offset) && true
    end

    def ends = @owned ? [["orders", 0, nil, nil]] : []

    def woken = @time = nil

    def mark(_, _, offset, _)
      return false unless @owned

      @world.marked(offset)
      @position = offset
      true
    end
  end
end
