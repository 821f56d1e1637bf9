# frozen_string_literal: true

module Pelton
  module ActiveJob
    # Order per key: a word for job classes.
    module Keys
      def self.extended(base)
        base.class_attribute(:_pelton_key, instance_accessor: false, instance_predicate: false)
      end
      private_class_method :extended

      # Jobs for which the block returns the same value run one after the other, in the order in which they were
      # enqueued. The block gets the job; nil means no order. Subclasses inherit it.
      #   pelton_key { |job| job.arguments.first.id }
      # The order is that of one queue. A job that is enqueued again, as `retry_on` does it, comes after the others.
      #: () { (untyped) -> untyped } -> void
      def pelton_key(&block)
        raise ArgumentError, "pelton_key needs a block: pelton_key { |job| job.arguments.first.id }" unless block

        self._pelton_key = block
      end
    end
  end
end
