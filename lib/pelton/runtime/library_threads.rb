# frozen_string_literal: true

module Pelton
  # Tells leaks from threads that a library keeps for the whole process. A library starts such a thread when it is first
  # used, which may be inside of a consumer: Active Record's reaper, a thread pool, the sender of an error tracker. It
  # outlives that consumer, and there is one, or a pool of them. A leak grows with each consumer. Not thread-safe.
  class LibraryThreads
    # A leak: so many consumers, each made after the end of the one before, left a thread that the same line started.
    CONSUMERS = 3
    # A leak, too: more threads of one line than this.
    MANY = 100
    # Threads of one line and of consumers that overlapped. ended: when the first of these consumers ended.
    Round = Struct.new(:threads, :ended, :reported)
    private_constant :CONSUMERS, :MANY, :Round

    def initialize
      # {"…/connection_pool.rb:323" => [Round, …]}
      @rounds = {}
    end

    # Adds a thread that outlived its consumer. began, ended: of that consumer, in monotonic seconds. Returns all
    # threads of that line that still run if they are a leak, at most once per round; otherwise an empty Array.
    #: (Thread, String, Float, Float) -> Array[Thread]
    def add(thread, line, began, ended)
      rounds = (@rounds[line] ||= [])
      rounds.reject! { |round| round.threads.keep_if(&:alive?).empty? }
      rounds << Round.new([], ended, false) if rounds.empty? || began > rounds.last.ended
      rounds.last.threads << thread
      leaks?(rounds) ? rounds.flat_map(&:threads) : []
    end

    private

    def leaks?(rounds)
      return false if rounds.last.reported

      rounds.last.reported = rounds.size >= CONSUMERS || rounds.sum { |round| round.threads.size } > MANY
    end
  end
end
