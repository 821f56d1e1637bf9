# frozen_string_literal: true

module Pelton
  module Processing
    # What a step decides after a job; the coordinator carries it out.
    #   done   go on behind the job's messages; mark: and store that offset
    #   again  run the unfinished messages again after `delay` seconds; alone: one by one, to find the one that fails
    #   later  nothing was begun: the same job after `delay` seconds, which is no attempt
    #   skip   mark the first unfinished message and go on behind it
    #   stop   nothing more of this partition until it is assigned anew
    class Verdict < Struct.new(:kind, :mark, :delay, :alone) # rubocop:disable Style/StructInheritance
      DONE = new(:done, false).freeze
      DONE_AND_MARK = new(:done, true).freeze
      SKIP = new(:skip).freeze
      STOP = new(:stop).freeze
      private_constant :DONE, :DONE_AND_MARK, :SKIP, :STOP

      def self.done(mark:) = mark ? DONE_AND_MARK : DONE
      def self.again(delay, alone: false) = new(:again, false, delay, alone).freeze
      def self.later(delay) = new(:later, false, delay).freeze
      def self.skip = SKIP
      def self.stop = STOP
    end

    # What a step is given to decide on: the error of a failed job or nil; after a failure the messages that are not
    # finished (none: everything was marked before it failed), else all of the job; which attempt it was (the first is
    # 1).
    Result = Struct.new(:error, :messages, :attempt)
  end
end
