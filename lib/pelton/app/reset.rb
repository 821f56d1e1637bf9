# frozen_string_literal: true

require_relative "../config"
require_relative "../routing/routing"

module Pelton
  class App
    # Closes all clients, as `close`. Then settings, topics and routes can be changed again, for tests that do so. Keeps
    # what was declared: settings, topics, subscribers, middleware, background threads and, without `routes: true`, the
    # routes.
    #   Pelton.reset!
    # Call it while no other thread uses the app.
    #: (?routes: bool, ?timeout: Numeric?) -> self
    def reset!(routes: false, timeout: nil)
      close(timeout: timeout)
      begin_with(@config.dup, routes ? Routing.new : @routing.dup)
      @failure_log.config = @config
      self
    end

    private

    def begin_with(config, routing)
      @config = config
      @routing = routing
      @topics = @topics&.for_app(config, routing, @notifications)
      @admin = @producer = @server = nil
      @generations = Hash.new(0)
    end
  end
end
