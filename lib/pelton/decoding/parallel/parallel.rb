# frozen_string_literal: true

require_relative "../../errors"
require_relative "inline"
require_relative "pool"
require_relative "ractor_worker"
require_relative "thread_worker"

module Pelton
  # Work that is done beside whoever wants it: one contract, several engines.
  #   engine.dispatch(messages, decoder, timeout: 30)    a Future at once: a value or an error for each, in their order
  #   engine.close(timeout: 10)
  # A decoder (any job) has `call(message)`. An engine never lets one bad payload harm the others, ends what takes
  # longer than the time given, and finishes nothing that was cancelled.
  module Parallel
    # Engines by name: what runs in them, and which Ruby they need.
    WORKERS = { thread: ThreadWorker, ractor: RactorWorker }.freeze
    private_constant :WORKERS

    module_function

    # Raises ConfigError for an engine that this Ruby lacks, or a job that it cannot take; place: for that error. A job
    # for Ractors is frozen here, if nothing else hinders it.
    #: (Symbol, untyped, ?String) -> void
    def check(engine, job, place = "parallel")
      return unless engine == :ractor

      check_ruby(place, engine)
      hindrance = RactorWorker.unfit(job)
      return unless hindrance

      raise ConfigError.new(place, job.class, "cannot be shared with Ractors because of #{hindrance}")
    end

    # Raises ConfigError where there are no Ractors as we need them.
    #: (String, ?untyped) -> void
    def check_ruby(place, value = nil)
      return if RactorWorker.available?

      raise ConfigError.new(place, value, "needs Ruby 4.0 or later, this is Ruby #{RUBY_VERSION}")
    end

    # A new one of them: inline, native, thread or ractor.
    #: (Symbol, **untyped) -> (Inline | Pool)
    def engine(name, **options)
      case name
      when :inline then Inline.new
      when :native then NativeThreads.new
      else Pool.new(WORKERS.fetch(name), **options)
      end
    end
  end
end
