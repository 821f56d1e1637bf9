# frozen_string_literal: true

module Pelton
  # Handles process signals until `restore`. Earlier handlers are called, too, and `restore` puts them back.
  #   signals = Signals.new { |name| inbox << name }
  #   signals.restore
  class Signals
    NAMES = %w[TERM INT QUIT TSTP CONT TTIN].freeze

    # The block runs in the signal handler: it may push to a Thread::Queue, but may not use a Mutex or IO.
    #: (?Array[String]) { (String) -> void } -> void
    def initialize(names = NAMES, &block)
      @block = block
      # Our handlers, and the earlier ones: {"TERM" => a Proc or "DEFAULT"}.
      @handlers = {}
      @previous = {}
      names.each { |name| take(name) }
    end

    # Installs the handlers again, after code was loaded that may have set its own. Those are called, too. If such a
    # handler calls the one before it, which is ours, the block is still called only once.
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

    # Installs a handler. A signal that comes meanwhile is handled, too.
    def take(name)
      before = nil # not known yet
      handler = lambda do |number|
        @block.call(name) if before.nil? || @handlers[name].equal?(handler)
        pass_on(name, number, before)
      end
      found = Signal.trap(name, handler) || "DEFAULT"
      @previous[name] = found unless found.equal?(@handlers[name])
      @handlers[name] = handler
      before = found
    end

    # Calls the earlier handler. Its errors are rescued, because in a signal handler they would interrupt the main
    # thread.
    def pass_on(name, number, before)
      before.call(number) if before.respond_to?(:call)
    rescue SystemExit
      nil # the server already stops
    rescue Exception => e # rubocop:disable Lint/RescueException -- as above
      $stderr.write("pelton: another handler of SIG#{name} raised #{e.class}: #{e.message}\n")
    end
  end
end
