# frozen_string_literal: true

# For Rails' own tests of adapters (test/integration of activejob): what runs the jobs of their app, in a process of its
# own, because those tests begin when the program exits.
module PeltonJobsManager
  def setup
    ActiveJob::Base.queue_adapter = :pelton
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
      config.group_id = config.job_topic_prefix = ENV.fetch("PELTON_PREFIX")
      config.schedule_topic = "#{ENV.fetch("PELTON_PREFIX")}schedule"
    end
    Pelton.routes { active_jobs "integration_tests" }
  end

  def start_workers
    ends, @ends = IO.pipe
    @pid = fork do
      @ends.close
      Pelton.start
      ends.read # until the parent closes its side, or ends
      exit!(Pelton.stop ? 0 : 1)
    end
  end

  def stop_workers
    @ends.close
    Process.wait(@pid)
  end
end
