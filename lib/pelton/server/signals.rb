# frozen_string_literal: true

module Pelton
  # Process signals, as long as somebody wants them. Handlers that were there before are called too, and put back after.
  #   signals = Signals.new { |name| inbox << name }
  #   signals.restore
  class Signals
    NAMES = %w[TERM INT QUIT TSTP CONT].freeze

    # The block runs in the trap: it may push to a Thread::Queue and little else (no Mutex, no IO).
    #: (?Array[String]) { (String) -> void } -> void
    def initialize(names = NAMES, &block)
      @block = block
      # Ours, and what was there before: {"TERM" => a Proc or "DEFAULT"}
      @handlers = {}
      @previous = {}
      names.each { |name| take(name) }
    end

    # Takes those back that code which was loaded meanwhile has trapped; its handlers are called, too. One that calls
    # what it found, which is ours, does not tell twice.
    #: () -> self
    def renew
      @handlers.each_key { |name| take(name) }
      self
    end

    #: () -> void
    def restore
      @previous.each { |name, before| Signal.trap(name, before) }
      @previous = {}
    end

    private

    # A signal that comes in the midst of this is heard, too.
    def take(name)
      before = nil # until it is known
      handler = lambda do |number|
        @block.call(name) if before.nil? || @handlers[name].equal?(handler)
        pass_on(name, number, before)
      end
      found = Signal.trap(name, handler) || "DEFAULT"
      @previous[name] = found unless found.equal?(@handlers[name])
      @handlers[name] = handler
      before = found
    end

    # In the trap, so what it raises would end what the main thread waits for.
    def pass_on(name, number, before)
      before.call(number) if before.respond_to?(:call)
    rescue SystemExit
      nil # that is under way
    rescue Exception => e # rubocop:disable Lint/RescueException -- as above
      warn("pelton: another trap of SIG#{name} raised #{e.class}: #{e.message}")
    end
  end
end
