# frozen_string_literal: true

module Pelton
  class Topics
    # One difference between a declaration and its cluster, from Plan#changes.
    #   cluster  its servers, "kafka-1:9092"
    #   topic    "orders"
    #   action   :create, :add_partitions, :alter_config, :delete, :remove_partitions, :change_replication
    #   setting  "partitions", "replication", "retention.ms"; nil for :create and :delete
    #   from, to the value now and the declared one; to of :create: {partitions: 6, replication: 3, config: {…}}
    #   default  true: `from` is the broker's default
    #   location where it is declared, "config/topics.rb:3"
    #   warning  what applying it means, or nil
    #   refusal  why `apply` does not do it, or nil
    #: (cluster: String, topic: String, action: Symbol, setting: String?, from: untyped, to: untyped, default: bool?,
    #:  location: String, warning: String?, refusal: String?)
    Change = Struct.new(:cluster, :topic, :action, :setting, :from, :to, :default, :location, :warning, :refusal,
                        keyword_init: true) do
      # true: `apply` does not do it.
      #   change.refused? # => false
      #: () -> bool
      def refused? = !refusal.nil?

      # "retention.ms 604800000 (default) -> 86400000"
      def to_s
        case action
        when :create then created.empty? ? "with the broker's defaults" : created.join(", ")
        when :delete then "with all its messages"
        else "#{setting} #{from.nil? ? "unset" : from}#{" (default)" if default} -> #{to.nil? ? "default" : to}"
        end
      end

      private

      def created
        count = to[:partitions]
        numbers = [("#{count} partition#{"s" unless count == 1}" if count),
                   ("replication #{to[:replication]}" if to[:replication])]
        [*numbers.compact, *to[:config].map { |name, value| "#{name}=#{value}" }]
      end
    end
  end
end
