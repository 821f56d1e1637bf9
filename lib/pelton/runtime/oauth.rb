# frozen_string_literal: true

require_relative "../errors"
require_relative "notifications"
require_relative "threads"

module Pelton
  # Tokens for brokers that require them (SASL/OAUTHBEARER). librdkafka requests a token when a client opens, and again
  # after 80 % of the token's life; config.oauth returns it. One Ruby thread of the process, "pelton.oauth", receives
  # the requests. Each callback runs on its own thread, so one that hangs delays only its own client. These threads
  # exist only with config.oauth, from the first client to the last.
  class Oauth
    INSTANCES = {} # rubocop:disable Style/MutableConstant -- {native module => its Oauth}, guarded by LOCK
    LOCK = Mutex.new
    # The characters that a token and an extension's value may have (RFC 7628).
    TEXT = /\A[\x20-\x7e\t\r\n]+\z/
    # The latest expiry, in milliseconds, that librdkafka can convert to microseconds.
    LATEST = 1 << 52
    private_constant :INSTANCES, :LOCK, :TEXT, :LATEST

    # callback: a WeakRef, because a block may refer to its producer, which then could never be garbage collected. The
    # code that opens the client keeps the callback alive. servers: its "bootstrap.servers". client: a WeakRef of the
    # native client, nil while it opens. wanted: true if the client requested a token while it was opening. thread:
    # runs the last callback.
    Entry = Struct.new(:callback, :bus, :servers, :client, :wanted, :thread)
    private_constant :Entry

    # The instance of a native module (there is one; tests pass their own).
    #: (Module) -> Oauth
    def self.of(native) = LOCK.synchronize { INSTANCES[native] ||= new(native) }

    # Converts the result of config.oauth for the native side: [token, milliseconds since 1970, principal, extensions].
    # Raises ConfigError, which never shows a token. (librdkafka's own messages do.)
    #: (untyped) -> [String, Integer, String, Hash[String, String]]
    def self.check(answer)
      refuse("a Hash, not #{answer.class}") unless answer.is_a?(Hash)
      known = %i[token expires_at expires_in principal extensions]
      unknown = answer.keys - known
      refuse("no keys other than #{known.join(", ")}") unless unknown.empty?
      refuse("token, a String of printable ASCII") unless text?(answer[:token])

      [answer[:token], expiry(answer), (answer[:principal] || "").to_s, extensions(answer[:extensions] || {})]
    end

    class << self
      private

      def refuse(expected)
        raise ConfigError.new(:oauth, nil, "the callback must return { token: \"…\", expires_at: Time (or " \
                                           "expires_in: seconds) }, expected #{expected}")
      end

      def text?(value) = value.is_a?(String) && value.match?(TEXT)

      def expiry(answer)
        time, seconds = answer.values_at(:expires_at, :expires_in)
        time ||= Time.now + seconds if seconds.is_a?(Numeric) && seconds.real? && seconds.to_f.finite?
        refuse("expires_at, a Time, or expires_in, a number of seconds") unless time.is_a?(Time)
        refuse("a token that has not expired") unless time > Time.now
        [(time.to_r * 1000).floor, LATEST].min
      end

      def extensions(given)
        valid = given.is_a?(Hash) && given.all? do |key, value|
          key.to_s.match?(/\A[a-zA-Z]+\z/) && key.to_s != "auth" && text?(value)
        end
        refuse("extensions, a Hash of names of letters (not auth) to values of printable ASCII") unless valid
        given.transform_keys(&:to_s)
      end
    end

    #: (Module) -> void
    def initialize(native)
      @native = native
      @lock = Mutex.new
      # {client name => Entry} of the clients that this process (@pid) opened. Guarded by @lock, like the entries.
      @clients = {}
      @pid = nil
      # The thread that receives requests; nil without clients. Guarded by @lock.
      @thread = nil
    end

    # Opens a native client in the block and returns it. Until `remove`, its tokens come from `callback`, which the
    # caller keeps alive. options: the client's, for librdkafka.
    #: (String, untyped, Notifications, Hash[String, untyped]) { () -> untyped } -> untyped
    def open(name, callback, bus, options)
      return yield unless callback

      require "weakref"
      add(name, Entry.new(WeakRef.new(callback), bus, options["bootstrap.servers"]))
      begin
        client = yield
      ensure
        remove(name) unless client
      end
      opened(name, client)
      client
    end

    # The client is closed. Kills the thread of a callback that still runs for it, because its result is not needed.
    #: (String) -> void
    def remove(name)
      ended = @lock.synchronize do
        next [] unless (entry = @clients.delete(name))

        thread = @thread
        @thread = nil if @clients.empty?
        [entry.thread, @thread ? nil : thread]
      end
      ended.each { |thread| thread&.kill unless thread == Thread.current }
    end

    private

    def add(name, entry)
      @lock.synchronize do
        @clients.clear unless @pid == Process.pid
        @pid = Process.pid
        @clients[name] = entry
        @thread = Threads.start("pelton.oauth") { run } unless @thread&.alive?
      end
    end

    # The client's first request may have come before the client was known.
    def opened(name, client)
      @lock.synchronize do
        entry = @clients[name] or return
        entry.client = WeakRef.new(client)
        start(name, entry) if entry.wanted
      end
    end

    # Can be killed only while it waits, so every request that was taken gets an answer.
    def run
      Thread.handle_interrupt(Object => :never) do
        while @lock.synchronize { @thread == Thread.current }
          names = []
          begin
            Thread.handle_interrupt(Object => :immediate) { names = @native.next_token_requests(nil) }
          ensure
            names.each { |name| wanted(name) }
          end
        end
      end
    end

    def wanted(name)
      @lock.synchronize do
        entry = @clients[name] or return
        entry.client ? start(name, entry) : entry.wanted = true
      end
    end

    # New threads inherit deferred interrupts. This one allows them, so that `remove` can kill it.
    def start(name, entry)
      entry.thread = Threads.start("pelton.oauth[#{name}]") do
        Thread.handle_interrupt(Object => :immediate) { answer(name, entry) }
      end
    end

    # librdkafka always gets an answer. It requests a token again 10 s after a failure, but never without an answer.
    def answer(name, entry)
      failure = "the callback ended its thread (Thread.exit or Thread#kill)"
      entry.client.set_oauth_token(*self.class.check(ask(entry, name)))
      failure = nil
    rescue *Notifications::CONTAINED => e
      failure = "#{e.class}: #{e.message.lines.first&.chomp.to_s[0, 300]}"
      entry.bus.publish("error.occurred", error: e, source: "oauth", client: name) if alive?(name, entry)
    ensure
      fail_with(entry, failure) if failure
    end

    # A callback with the keyword `servers:` gets the address of the client's cluster.
    def ask(entry, name)
      callback = entry.callback.__getobj__
      parameters = callback.is_a?(Proc) ? callback.parameters : callback.method(:call).parameters
      keyword = parameters.any? { |kind, parameter| kind == :keyrest || (kind != :opt && parameter == :servers) }
      keyword ? callback.call(name, servers: entry.servers) : callback.call(name)
    end

    def alive?(name, entry) = @lock.synchronize { @clients[name].equal?(entry) } && entry.client.weakref_alive?

    def fail_with(entry, reason)
      entry.client.set_oauth_failure(reason)
    rescue Error, WeakRef::RefError
      nil # the client was closed or garbage collected
    end
  end
end
