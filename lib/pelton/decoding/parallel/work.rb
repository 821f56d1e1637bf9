# frozen_string_literal: true

module Pelton
  module Parallel
    # A worker's loop over its task: calls the job with each input, and continues after errors. It also runs in Ractors,
    # so it uses no state.
    module Work
      module_function

      # Returns [values, {index => exception}]. The block converts each value.
      #: (Array[untyped], untyped) ?{ (untyped) -> untyped } -> [Array[untyped], Hash[Integer, Exception]]
      def run(inputs, job)
        failures = {}
        values = Array.new(inputs.size) do |index|
          value = job.call(inputs[index])
          block_given? ? yield(value) : value
        rescue Exception => e # rubocop:disable Lint/RescueException -- one bad payload never ends its worker
          failures[index] = e
          nil
        end
        [values, failures]
      end
    end
  end
end
