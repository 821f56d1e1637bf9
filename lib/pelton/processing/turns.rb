# frozen_string_literal: true

module Pelton
  module Processing
    # Jobs that wait, each with its topic: next is the topic with the fewest jobs under way, and among those the one
    # that had its turn longest ago. So a topic with many or slow jobs takes no more than its share of the workers while
    # others have jobs. Not thread-safe, the jobs queue's lock guards it.
    class Turns
      def initialize
        # {topic => [job, …]} of topics with waiting jobs; whose turn is longest ago comes first.
        @waiting = {}.compare_by_identity
        # {topic => how many jobs workers have}
        @under_way = Hash.new(0).compare_by_identity
        # {job => topic} of those.
        @topics = {}.compare_by_identity
      end

      #: (Job, untyped) -> void
      def push(job, topic) = (@waiting[topic] ||= []) << job

      # Gives a job to a worker.
      #: () -> Job?
      def shift
        topic, jobs = @waiting.size > 1 ? @waiting.min_by { |one, _| @under_way[one] } : @waiting.first
        return unless jobs

        job = jobs.shift
        @waiting.delete(topic)
        @waiting[topic] = jobs if jobs.any?
        @under_way[topic] += 1
        @topics[job] = topic
        job
      end

      # A worker is through with it.
      #: (Job) -> void
      def finished(job)
        topic = @topics.delete(job)
        @under_way.delete(topic) if (@under_way[topic] -= 1).zero?
      end

      # Takes a waiting job back.
      #: (Job) -> bool
      def delete(job)
        topic, jobs = @waiting.find { |_, list| list.any? { |one| one.equal?(job) } }
        return false unless jobs

        jobs.delete_if { |one| one.equal?(job) }
        @waiting.delete(topic) if jobs.empty?
        true
      end

      # How many wait.
      #: () -> Integer
      def size = @waiting.each_value.sum(&:size)

      # How many workers have.
      #: () -> Integer
      def running = @topics.size
    end
  end
end
