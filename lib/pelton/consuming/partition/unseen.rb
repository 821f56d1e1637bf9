# frozen_string_literal: true

module Pelton
  module Consuming
    # With manual_offsets: messages that need no mark, because no consumer saw them (a filter dropped them) or because
    # they were skipped or sent to the dead letters. They are done once all messages before them are marked.
    class Unseen
      # Number of stretches that are remembered. An older one is done with the next mark behind it.
      LIMIT = 10_000

      def initialize
        # [[39, 42, 7], …]: offset of the last message before the stretch that needs a mark (nil: none), end of the
        # stretch, leader epoch.
        @stretches = []
        # The offset of the last message that needs a mark; nil: none came.
        @last = nil
      end

      # Everything from one offset up to another is finished. seen: the messages that need a mark.
      #: (Integer, Integer, Integer, Enumerable[Message]) -> void
      def add(from, upto, leader_epoch, seen)
        seen.each do |message|
          at = message.offset
          next if at < from
          break if at > upto

          stretch(at, message.leader_epoch) if at > from
          @last = at
          from = at + 1
        end
        stretch(upto + 1, leader_epoch) if upto >= from
      end

      # Everything before `offset` is done. Returns [offset, leader epoch] up to which more is done; nil: no more is.
      #: (Integer) -> [Integer, Integer]?
      def take(offset)
        found = nil
        found = @stretches.shift while (first = @stretches.first) && (first[0].nil? || first[0] < offset)
        found&.drop(1)
      end

      private

      def stretch(upto, leader_epoch)
        @stretches.pop if @stretches.any? && @stretches.last[0] == @last
        @stretches << [@last, upto, leader_epoch]
        @stretches.shift if @stretches.size > LIMIT
      end
    end
  end
end
