# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/threads"
require_relative "work"

module Pelton
  module Parallel
    # A pool's worker that is a Ractor (Ruby 4.0 and later). What goes in is frozen and shareable, so nothing is copied;
    # what comes out is made so by the Ractor, which is no work where it is already. Used by the dispatcher's thread
    # only.
    class RactorWorker
      class << self
        # Is there a Ruby for it?
        #: () -> bool
        def available? = defined?(::Ractor::Port) ? true : false

        #: () -> Ractor::Port
        def mailbox = ::Ractor::Port.new

        # Why this cannot be given to a Ractor, or nil: "@cache, a Hash that is not frozen".
        #: (untyped) -> String?
        def refusal(object) = ::Ractor.shareable?(object) ? nil : blame(object)

        # The same of an object that is ours to freeze: it is, where that alone is missing.
        #: (untyped) -> String?
        def unfit(job)
          return if ::Ractor.shareable?(job)

          inside = job.instance_variables.map { |name| job.instance_variable_get(name) }
          job.freeze if inside.all? { |one| one.equal?(job) || ::Ractor.shareable?(one) }
          refusal(job)
        end

        # In the Ractor, until it is told to end. Its second thread is the only way to end one that does not come back.
        #: (Ractor::Port, Integer) -> void
        def live(port, id)
          thread = Thread.current
          thread.report_on_exception = false
          control = ::Ractor::Port.new
          guard = Threads.start_in_ractor { thread.kill if control.receive }
          port << [:ready, id, control].freeze
          nil while work(port, id, ::Ractor.receive)
        ensure
          # Ruby 4.0 keeps a Ractor for ever of which a thread still waits at a port.
          control << false
          guard.join
        end

        private

        # A method of its own, so that nothing of it is kept alive by who waits for the next.
        def work(port, id, order)
          port << answer(id, *order) if order.is_a?(Array)
          order
        end

        def answer(id, inputs, job)
          values, failures = Work.run(inputs, job) { |value| ::Ractor.make_shareable(value) }
          told = failures.transform_values { |error| WorkError.facts(error) }
          ::Ractor.make_shareable([:done, id, values, told])
        end

        # The way to what hinders: "@parser.@cache, a Hash that is not frozen". seen: what is on it, for objects may
        # refer to themselves.
        def blame(object, seen = {}.compare_by_identity)
          seen[object] = true
          name = object.instance_variables.find do |one|
            inside = object.instance_variable_get(one)
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
      # What it was given and has not done.
      attr_reader :part

      # port: where it says [:ready, id, control], [:done, id, values, facts of errors] and, at its end, a Symbol.
      #: (String, Integer, Ractor::Port) -> void
      def initialize(name, id, port)
        @id = id
        @part = nil
        # Ends it; nil: it is not ready yet.
        @control = nil
        @ractor = quietly { ::Ractor.new(port, id, name: name) { |*place| Parallel::RactorWorker.live(*place) } }
        @ractor.monitor(port)
      end

      #: () -> bool
      def ready? = !@control.nil?
      #: () -> bool
      def free? = ready? && @part.nil?
      #: (Ractor::Port) -> void
      def ready(control) = @control = control
      # Its ports close before it tells of its end.
      #: () -> bool
      def alive? = send(:ping)

      # false: it has ended, and has not taken it.
      #: (Part) -> bool
      def give(part) = send([part.inputs, part.job].freeze) && (@part = part) && true

      # The part that it was given: it has it no more.
      #: () -> Part?
      def take_back = @part.tap { @part = nil }

      # It ends when it has done what it was given.
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

      # The first Ractor of a process makes Ruby warn that they are experimental, which users of ours need not hear:
      # they asked for Ractors by name. The switch is the process's, so it is touched for that one only.
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
