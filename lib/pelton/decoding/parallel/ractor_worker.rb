# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/threads"
require_relative "work"

module Pelton
  module Parallel
    # A pool's worker that is a Ractor (Ruby 4.0 and later). Inputs are shareable, so nothing is copied. The Ractor
    # makes its results shareable, which costs nothing if they are already. Used by the dispatcher's thread only.
    class RactorWorker
      class << self
        # Does this Ruby support it?
        #: () -> bool
        def available? = defined?(::Ractor::Port) ? true : false

        #: () -> Ractor::Port
        def mailbox = ::Ractor::Port.new

        # The reason why a Ractor cannot use this object, or nil: "@cache, a Hash that is not frozen".
        #: (untyped) -> String?
        def refusal(object) = ::Ractor.shareable?(object) ? nil : blame(object)

        # Like `refusal`, but first freezes the object if that alone makes it shareable.
        #: (untyped) -> String?
        def unfit(job)
          return if ::Ractor.shareable?(job)

          inside = job.instance_variables.map { |name| job.instance_variable_get(name) }
          job.freeze if inside.all? { |object| object.equal?(job) || ::Ractor.shareable?(object) }
          refusal(job)
        end

        # Runs in the Ractor until it gets an order to end. A second thread can end it while a job hangs.
        #: (Ractor::Port, Integer) -> void
        def live(port, id)
          thread = Thread.current
          thread.report_on_exception = false
          control = ::Ractor::Port.new
          guard = Threads.start_in_ractor { thread.kill if control.receive }
          port << [:ready, id, control].freeze
          nil while work(port, id, ::Ractor.receive)
        ensure
          # Ruby 4.0 never frees a Ractor of which a thread still waits at a port.
          control << false
          guard.join
        end

        private

        # A separate method, so that the wait for the next order does not keep this one's objects alive.
        def work(port, id, order)
          port << answer(id, *order) if order.is_a?(Array)
          order
        end

        def answer(id, inputs, job)
          values, failures = Work.run(inputs, job) { |value| ::Ractor.make_shareable(value) }
          reported = failures.transform_values { |error| WorkError.facts(error) }
          ::Ractor.make_shareable([:done, id, values, reported])
        end

        # The path to the object that is not shareable: "@parser.@cache, a Hash that is not frozen". seen: the objects
        # on the path, because objects may refer to themselves.
        def blame(object, seen = {}.compare_by_identity)
          seen[object] = true
          name = object.instance_variables.find do |variable|
            inside = object.instance_variable_get(variable)
            !seen.key?(inside) && !::Ractor.shareable?(inside)
          end
          return describe(object) unless name

          inner = blame(object.instance_variable_get(name), seen)
          inner.start_with?("@") ? "#{name}.#{inner}" : "#{name}, #{inner}"
        end

        def describe(object)
          return "a block: create it with Ractor.shareable_proc" if object.is_a?(Proc)

          "a #{object.class} #{object.frozen? ? "with something inside that is not shareable" : "that is not frozen"}"
        end
      end

      attr_reader :id
      # The task that it has not finished, or nil.
      attr_reader :task

      # port: receives [:ready, id, control], [:done, id, values, {index => error data}] and, at the end, a Symbol.
      #: (String, Integer, Ractor::Port) -> void
      def initialize(name, id, port)
        @id = id
        @task = nil
        # The port that ends the Ractor; nil until it is ready.
        @control = nil
        @ractor = quietly { ::Ractor.new(port, id, name: name) { |*given| Parallel::RactorWorker.live(*given) } }
        @ractor.monitor(port)
      end

      #: () -> bool
      def ready? = !@control.nil?
      #: () -> bool
      def free? = ready? && @task.nil?
      #: (Ractor::Port) -> void
      def ready(control) = @control = control
      # The Ractor's ports close before its end is reported.
      #: () -> bool
      def alive? = send(:ping)

      # Returns false if the worker has ended and did not take the task.
      #: (Task) -> bool
      def give(task) = send([task.inputs, task.job].freeze) && (@task = task) && true

      # Returns the worker's task and removes it.
      #: () -> Task?
      def take_back = @task.tap { @task = nil }

      # Ends the worker after its current task.
      #: () -> void
      def stop = send(nil)

      #: () -> void
      def kill
        @control ? @control << true : stop
      rescue ::Ractor::ClosedError
        nil # it has ended
      end

      #: (Hash[Integer, Array[untyped]]) -> Hash[Integer, WorkError]
      def errors(failures) = failures.transform_values { |facts| WorkError.new(*facts) }

      private

      def send(order)
        @ractor << order
        true
      rescue ::Ractor::ClosedError
        false
      end

      # Ruby warns at the first Ractor of a process that Ractors are experimental. Pelton's users chose Ractors, so the
      # warning is off for that moment. The switch is global, so it is changed for the first Ractor only.
      def quietly
        return yield if ::Ractor.count > 1 || !Warning[:experimental]

        begin
          Warning[:experimental] = false
          yield
        ensure
          Warning[:experimental] = true
        end
      end
    end
  end
end
