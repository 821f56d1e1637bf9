# frozen_string_literal: true

module Pelton
  module Consuming
    # Jobs that wait, by topic. Next is the topic with the fewest running jobs, and among those the one whose last turn
    # was longest ago. So a topic with many or slow jobs gets only its fair part of the workers while other topics have
    # jobs. Within a topic, jobs of a lower rank go first. Not thread-safe: the jobs queue's lock guards it.
    class FairQueue
      RANKS = 4
      ALL = RANKS - 1

      # 0: the hooks at the end of a partition, which a rebalance or a stop waits for. 1: the hook at its start. 2: its
      # last calls of consume. 3: all other jobs, the ordinary ones.
      #: (Job) -> Integer
      def self.rank(job)
        case job.kind
        when :revoked, :shutdown then 0
        when :assigned then 1
        else job.closing ? 2 : ALL
        end
      end

      # How many jobs wait.
      #: () -> Integer
      attr_reader :size

      def initialize
        # {topic => its jobs by rank, [[job, …], [], [], []]} for topics with waiting jobs. The first topic is the one
        # whose last turn was longest ago.
        @waiting = {}.compare_by_identity
        # {topic => how many of its jobs run}
        @under_way = Hash.new(0).compare_by_identity
        # {running job => its topic}
        @topics = {}.compare_by_identity
        # {topic => its Array of jobs by rank} for all topics that had a job, so that a job makes no new Array.
        @lines = {}.compare_by_identity
        # {topic => how many of its partitions this member has}. A topic without partitions is forgotten with its last
        # job.
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

      # Returns the next job of this rank or a lower one, which runs from now on. reserved: it gets the last worker,
      # which is kept for topics without a running job, if there are several topics.
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

      # The job does not run any more. Returns its topic.
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

      # This member got a partition of the topic (1), or gave one back (-1). A topic without partitions and jobs is
      # forgotten.
      #: (untyped, Integer) -> void
      def partitions(topic, more)
        @partitions[topic] = @partitions.fetch(topic, 0) + more
        forget(topic)
      end

      # Takes a waiting job back.
      #: (Job) -> bool
      def delete(job)
        topic, line = @waiting.find { |_, ranks| ranks.any? { |jobs| jobs.any? { |waiting| waiting.equal?(job) } } }
        return false unless line

        line.each { |jobs| jobs.delete_if { |waiting| waiting.equal?(job) } }
        @size -= 1
        if line.all?(&:empty?)
          @waiting.delete(topic)
          forget(topic)
        end
        true
      end

      # How many jobs of this rank or a lower one wait.
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
