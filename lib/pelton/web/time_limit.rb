# frozen_string_literal: true

require_relative "../runtime/threads"

module Pelton
  class Web
    # A page's reading of a whole topic. Its client waits as long as Kafka is away, and a topic may be large. So it runs
    # on a thread of its own, "pelton.web.reading", which is killed when the time is over.
    #   TimeLimit.run { letters.each { |letter| count(letter) } } # => false: it was not done
    module TimeLimit
      # Seconds that a page reads, and for the end of its clients.
      SECONDS = 10
      CLOSE = 5
      private_constant :CLOSE

      module_function

      # Did the block end within this time? Raises what ended it. After `false`, the block does nothing more but close
      # its clients.
      #: (?Numeric) { () -> void } -> bool
      def run(seconds = SECONDS, &reading)
        problem = nil
        thread = Threads.start("pelton.web.reading", report: ->(error) { problem = error }, &reading)
        ended = Threads.join([thread], seconds).empty?
        raise problem if problem

        ended
      ensure
        Threads.join([thread.kill], CLOSE) if thread
      end
    end
  end
end
