# frozen_string_literal: true

module Pelton
  # Named before its parts are loaded: otherwise its autoload would load this file again.
  module Parallel
  end
end

require_relative "../../errors"
require_relative "inline"
require_relative "pool"
require_relative "ractor_worker"
require_relative "thread_worker"

module Pelton
  # Parallel work: several engines with the same interface.
  #   engine.dispatch(messages, decoder, timeout: 30)    a Future: a value or an error for each message, in order
  #   engine.close(timeout: 10)
  # A decoder (any job) has `call(message)`. One bad payload never affects the others. An engine ends work that takes
  # longer than its timeout, and does not finish cancelled work.
  module Parallel
    # Worker classes by the engine's name.
    WORKERS = { thread: ThreadWorker, ractor: RactorWorker }.freeze
    private_constant :WORKERS

    module_function

    # Raises ConfigError if this Ruby does not support the engine, or if the engine cannot run the job. setting: for
    # that error. A job for Ractors is frozen here, if that makes it shareable.
    #: (Symbol, untyped, ?String) -> void
    def check(engine, job, setting = "parallel")
      return unless engine == :ractor

      check_ruby(setting, engine)
      hindrance = RactorWorker.unfit(job)
      return unless hindrance

      raise ConfigError.new(setting, job.class, "cannot be shared with Ractors because of #{hindrance}")
    end

    # Raises ConfigError if this Ruby's Ractors are not supported.
    #: (String, ?untyped) -> void
    def check_ruby(setting, value = nil)
      return if RactorWorker.available?

      raise ConfigError.new(setting, value, "needs Ruby 4.0 or later, this is Ruby #{RUBY_VERSION}")
    end

    # A new engine: :inline, :native, :thread or :ractor.
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
