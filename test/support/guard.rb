# frozen_string_literal: true

# Loaded before anything else into every process that test/run.rb starts (ruby -r):
#
# - Ruby's warnings about this project's files make the process fail at its end,
# - on SIGPWR (sent by the runner before it kills a process that takes too long) each thread's stack is printed,
# - Ctrl-C works, even if the runner was started in a shell's background, which ignores it.
module Guard
  ROOT = File.expand_path("../..", __dir__)
  SIGNAL = "PWR" # one that neither Ruby nor Pelton uses
  # Deadlines in tests are generous for an idle machine. A busy one gets this many times as long.
  PATIENCE = 4

  @warnings = [] # e.g. ["/src/pelton/lib/pelton/a.rb:3: warning: unused variable"]

  class << self
    attr_reader :warnings

    # Collects warnings about our files.
    def note(message)
      warnings << message if message.start_with?("#{ROOT}/") && message.match?(/\A\S+:\d+: warning:/)
    end

    def dump_stacks
      text = Thread.list.map do |thread|
        name = thread.name || thread.object_id
        "--- thread #{name} (#{thread.status.inspect})\n  #{thread.backtrace&.join("\n  ")}\n"
      end
      $stderr.write("=== stacks of process #{Process.pid}\n", *text)
    end
  end

  # Ruby calls this for each of its warnings.
  module Listener
    def warn(message, category: nil)
      Guard.note(message)
      super(message)
    end
  end
  Warning.extend(Listener)
end

ENV.delete("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO") # of test/run.rb, for this process alone: with -w, Ruby warns about it

trap(Guard::SIGNAL) { Guard.dump_stacks }
trap("INT", "DEFAULT")

# Registered first, so it runs last: after the tests.
at_exit do
  next if Guard.warnings.empty?

  warn "#{Guard.warnings.size} Ruby warning(s) about this project's files: a failure", *Guard.warnings.uniq
  exit 1
end
