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
      # What was there before: {"TERM" => "DEFAULT" or a Proc}
      @previous = {}
      names.each do |name|
        @previous[name] = Signal.trap(name) do |number|
          block.call(name)
          before = @previous[name]
          before.call(number) if before.respond_to?(:call)
        end
      end
    end

    #: () -> void
    def restore
      @previous.each { |name, before| Signal.trap(name, before || "DEFAULT") }
      @previous = {}
    end
  end
end
