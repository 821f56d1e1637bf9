# frozen_string_literal: true

# Errors of Active Job. errors.rb loads this file.
module Pelton
  # A message in the topic of a job queue is not a job of Active Job. It goes to the dead letters without a retry.
  # What to do: Find the program that writes to this topic: only `perform_later` should.
  #   InvalidJobError.new("jobs.default", 3, 42, "its payload is no JSON")
  class InvalidJobError < Error
    attr_reader :topic, :partition, :offset

    #: (?String?, ?Integer?, ?Integer?, ?String?) -> void
    def initialize(topic = nil, partition = nil, offset = nil, reason = nil)
      @topic = topic
      @partition = partition
      @offset = offset
      super("#{topic}/#{partition} offset #{offset} is not a job of Active Job: #{reason}")
    end
  end

  # The class of a job does not exist in this process. The job is retried, then it goes to the dead letters.
  # What to do: Deploy the workers before the code that enqueues a new class, and redrive the dead letters.
  #   UnknownJobError.new("WelcomeJob", "f3a0")
  class UnknownJobError < Error
    attr_reader :job_class, :job_id

    #: (?String?, ?String?) -> void
    def initialize(job_class = nil, job_id = nil)
      @job_class = job_class
      @job_id = job_id
      super("job #{job_id}: its class #{job_class} does not exist in this process, or is no job class. Was it " \
            "enqueued by newer code, renamed or removed?")
    end
  end
end
