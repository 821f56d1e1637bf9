# frozen_string_literal: true

module Pelton
  module Parallel
    # What a worker does with its part: all inputs through the job, whatever one of them does to it. Runs in Ractors
    # too, so it touches no state.
    module Work
      module_function

      # [values, {index => exception}]; the block makes of a value what is handed over.
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
