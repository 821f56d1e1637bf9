# frozen_string_literal: true

module Pelton
  module Consuming
    # Jobs that are to wait for Kafka while too many others do. Each ends and, in the order of their ends, is given to a
    # worker again when one of the others is back. Not thread-safe, the jobs queue's lock guards it.
    class Overflow
      def initialize
        # {job => true}: their workers have them still.
        @ending = {}.compare_by_identity
        # {job => its topic}: they wait.
        @waiting = {}.compare_by_identity
        # {job => true}: given to the workers again. So many of the others' places are theirs.
        @called = {}.compare_by_identity
      end

      # How many are to wait, or do.
      #: () -> Integer
      def size = @ending.size + @waiting.size

      # Does a job wait for a place?
      #: () -> bool
      def waiting? = !@waiting.empty?

      # How many places are promised.
      #: () -> Integer
      def promised = @called.size

      # Its worker is about to be through with it.
      #: (Job) -> void
      def add(job) = @ending[job] = true

      # Is a place promised to it? It is no more.
      #: (Job) -> bool
      def redeem(job) = !@called.delete(job).nil?

      # Its worker is through with it. false: it comes again.
      #: (Job, untyped) -> bool
      def finished(job, topic)
        @called.delete(job)
        return true unless @ending.delete(job)

        @waiting[job] = topic
        false
      end

      # Those that get these places.
      #: (Integer) { (Job, untyped) -> void } -> void
      def call(places)
        while places.positive? && (job, topic = @waiting.first)
          @waiting.delete(job)
          @called[job] = true
          places -= 1
          yield job, topic
        end
      end

      # Takes one back that has no worker, or will have none soon.
      #: (Job) -> bool
      def delete(job) = !(@ending.delete(job) || @waiting.delete(job)).nil?
    end
  end
end
