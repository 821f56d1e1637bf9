# frozen_string_literal: true

require_relative "../app"

module Pelton
  class Notifications
    # A copy has the same subscribers, and gets others of its own.
    def initialize_copy(original)
      super
      @refused = {}
      @lock = Mutex.new
    end
  end

  class App
    # Each test has a copy of the app: with its settings, routes, subscribers, middleware and background threads.
    # Nothing of a copy is frozen, and it has no client.
    def initialize_copy(original)
      super
      @lock = Mutex.new
      @pools = OpenPools.new
      @backgrounds = @backgrounds.dup
      @middleware = @middleware.dup
      @notifications = @notifications.dup
      begin_with(@config.dup, @routing.dup)
      @failure_log = @failure_log.move(@config, @notifications)
    end
  end
end
