# frozen_string_literal: true

module Pelton
  module Consuming
    # Jobs that wait, each with its topic: next is the topic with the fewest jobs under way, and among those the one
    # that had its turn longest ago. So a topic with many or slow jobs takes no more than its share of the workers while
    # others have jobs. Within a topic those of a lower rank (0 to RANKS - 1) go first. Not thread-safe, the jobs
    # queue's lock guards it.
    class FairQueue
      RANKS = 4
      ALL = RANKS - 1

      # How many wait.
      #: () -> Integer
      attr_reader :size

      def initialize
        # {topic => jobs of each rank, [[job, …], [], [], []]} of topics with waiting jobs; the one whose turn is
        # longest ago comes first.
        @waiting = {}.compare_by_identity
        # {topic => how many jobs workers have}
        @under_way = Hash.new(0).compare_by_identity
        # {job => topic} of those.
        @topics = {}.compare_by_identity
        # {topic => its line} of all that had a job, so that a job makes no new one.
        @lines = {}.compare_by_identity
        # {topic => how many of its partitions are here}; of 0 it is forgotten with its last job.
        @partitions = {}.compare_by_identity
        @size = 0
      end

      #: (Job, untyped, ?rank: Integer) -> void
      def push(job, topic, rank: ALL)
        line = @lines[topic] ||= Array.new(RANKS) { [] }
        line[rank] << job
        @waiting[topic] ||= line
        @size += 1
      end

      # Gives a job of this rank or a lower one to a worker. reserved: this is the last worker, kept for topics that
      # have none, if there are several topics.
      #: (?rank: Integer, ?reserved: bool) -> Job?
      def shift(rank: ALL, reserved: false)
        return if @waiting.empty?

        topic, line = choose(rank, reserved && @lines.size > 1)
        return unless line

        at = 0
        at += 1 while line[at].empty?
        job = line[at].shift
        @size -= 1
        @waiting.delete(topic)
        at += 1 while at < ALL && line[at].empty?
        @waiting[topic] = line unless line[at].empty?
        @under_way[topic] += 1
        @topics[job] = topic
        job
      end

      # A worker is through with it, or goes on without a worker's place. Returns its topic.
      #: (Job) -> untyped
      def finished(job)
        return unless @topics.key?(job)

        topic = @topics.delete(job)
        if (@under_way[topic] -= 1).zero?
          @under_way.delete(topic)
          forget(topic)
        end
        topic
      end

      # So many more partitions of this topic are here: 1, or -1. A topic without partitions and jobs counts no more.
      #: (untyped, Integer) -> void
      def partitions(topic, more)
        @partitions[topic] = @partitions.fetch(topic, 0) + more
        forget(topic)
      end

      # Takes a waiting job back.
      #: (Job) -> bool
      def delete(job)
        topic, line = @waiting.find { |_, ranks| ranks.any? { |jobs| jobs.any? { |one| one.equal?(job) } } }
        return false unless line

        line.each { |jobs| jobs.delete_if { |one| one.equal?(job) } }
        @size -= 1
        if line.all?(&:empty?)
          @waiting.delete(topic)
          forget(topic)
        end
        true
      end

      # How many of this rank or a lower one wait.
      #: (Integer) -> Integer
      def count(rank) = rank == ALL ? @size : @waiting.each_value.sum { |line| line.first(rank + 1).sum(&:size) }

      private

      def forget(topic)
        return if @partitions[topic] != 0 || @waiting.key?(topic) || @under_way.key?(topic)

        @partitions.delete(topic)
        @lines.delete(topic)
      end

      def choose(rank, reserved)
        return @waiting.shift unless reserved || rank < ALL || @waiting.size > 1 # it is put back if it has more jobs

        best = nil
        least = nil
        @waiting.each do |topic, line|
          busy = @under_way[topic]
          next if (reserved && busy.positive?) || (least && busy >= least)
          next if rank < ALL && line.first(rank + 1).all?(&:empty?)

          best = [topic, line]
          least = busy
        end
        best
      end
    end
  end
end
