# frozen_string_literal: true

module Pelton
  module Consuming
    # Where the user marks by hand: what needs no mark, because no consumer saw it (a filter dropped it) or because it
    # was given up (skipped, or sent to the dead letters). It counts as done once all messages before it are marked.
    class Unseen
      # So many stretches are remembered; of older ones the next mark behind them tells.
      LIMIT = 10_000

      def initialize
        # [[offset of the last message before it that needs a mark (nil: none), end, leader epoch], …]
        @stretches = []
        @last = nil
      end

      # Everything from one offset up to another one is finished. seen: those messages that need a mark.
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

      # What is before `offset` is done. [offset, leader epoch]: up to there it is, too; nil: nothing more is.
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
