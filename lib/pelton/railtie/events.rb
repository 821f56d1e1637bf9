# frozen_string_literal: true

require "active_support/notifications"
require_relative "../events"

module Pelton
  class Railtie < ::Rails::Railtie
    # Pelton's events as notifications of ActiveSupport: "consumer.consumed" is "consumer.consumed.pelton". Only events
    # that have a subscriber when the app is initialized are forwarded, because Pelton measures nothing for events
    # without a subscriber.
    #   ActiveSupport::Notifications.subscribe("consumer.consumed.pelton") do |event|
    #     Rails.logger.info "#{event.payload[:topic]}: #{event.payload[:seconds]} s"
    #   end
    module Events
      # Statistics and reports of each produce call cost time. A subscriber to all notifications does not ask for them.
      COSTLY = %w[statistics.emitted broker.changed message.produced].freeze
      private_constant :COSTLY

      #: (App) -> void
      def self.forward(app)
        Pelton::Events::TABLE.each_key do |name|
          notification = "#{name}.pelton"
          next unless wanted?(notification, costly: COSTLY.include?(name))

          app.subscribe(name) { |event| ActiveSupport::Notifications.instrument(notification, event.payload.dup) }
        end
      end

      def self.wanted?(notification, costly:)
        notifier = ActiveSupport::Notifications.notifier
        notifier.listening?(notification) && !(costly && notifier.listening?("anything else"))
      end
      private_class_method :wanted?
    end
  end
end
