# frozen_string_literal: true

require_relative "../consumer"
require_relative "../errors"

module Pelton
  class Routing
    # Checks the methods of a consumer class. Pelton calls some of them by name, and never calls any other one.
    module ConsumerMethods
      # What Pelton calls, and with how many arguments.
      CALLED = { consume: 0, process: 1, assigned: 0, tick: 0, reached_end: 0, revoked: 0, shutdown: 0,
                 around: 1 }.freeze
      # Names of what consumers of other frameworks, and jobs, define for one message or a batch.
      WORK = /\A(on_|handle_|consume_|each_)?(message|messages|batch)\z|
              \A(perform|handle|call|work|run|receive|execute|on_consume|process_(message|messages|batch))\z/x
      # Hooks of other frameworks, and what is called here instead.
      HOOKS = {
        assigned: %i[initialized on_initialized on_assigned on_assign on_partitions_assigned partitions_assigned],
        revoked: %i[on_revoked on_revoke on_partitions_revoked partitions_revoked on_partitions_lost on_lost],
        shutdown: %i[on_shutdown before_shutdown on_stop teardown],
        reached_end: %i[eofed on_eofed on_eof on_end_of_partition],
        tick: %i[on_tick],
        around: %i[wrap around_consume around_process around_perform before_consume after_consume before_process
                   after_process on_before_consume on_after_consume]
      }.flat_map { |ours, theirs| theirs.map { |name| [name, ours] } }.to_h.freeze
      # Also these, which are words of routes here.
      WORDS = %i[on_failure on_dead_letter].freeze
      WORKS = { consume: "reads `messages`", process: "gets one message" }.freeze
      private_constant :WORK, :WORKS, :HOOKS, :WORDS

      module_function

      # The name of the loaded consumer class that is most like this one, also in another module; or nil.
      #: (String) -> String?
      def named(name)
        names = classes.filter_map(&:name)
        names.find { |full_name| full_name.end_with?("::#{name}") } || ConfigError.near(name, names)
      end

      def classes(of = Consumer) = of.subclasses.flat_map { |subclass| [subclass, *classes(subclass)] }

      # Why this class cannot be a consumer, or nil. ticks: its route has `tick_every`.
      #: (Class, ticks: bool) -> String?
      def fault(consumer, ticks:)
        own = CALLED.keys.select { |name| own?(consumer, name) }
        if (own & %i[consume process]).size == 2 then "has both consume and process: define only one of them"
        elsif (own & %i[consume process]).empty? then "has no method consume or process: #{work(consumer)}"
        elsif ticks && !own.include?(:tick)
          "has no method tick, which `tick_every` calls: #{misspelled(consumer, :tick) || "define it"}"
        else
          not_public(consumer) || wrong_arguments(consumer, own)
        end
      end

      # Public methods that look like hooks, but that Pelton never calls: {on_revoked: "rename it to revoked"}. Without
      # those of a class that has the right hook, too, or that names them in another method.
      #: (Class) -> Hash[Symbol, String]
      def unused(consumer)
        names = methods(consumer) - CALLED.keys
        hooks = names.to_h { |name| [name, HOOKS[name] || meant(consumer, name)] }.compact
        hooks.reject! { |name, hook| own?(consumer, hook) || named_in?(consumer, name) }
        words = (names & WORDS).reject { |name| named_in?(consumer, name) }
        { **hooks.transform_values { |hook| "rename it to #{hook}" },
          **words.to_h { |name| [name, "use `#{name}` in the route"] } }
      end

      def own?(consumer, name) = consumer.instance_method(name).owner != Consumer

      # Public methods of the class and of the classes between it and Consumer, but not of modules.
      def methods(consumer)
        consumer.ancestors.take_while { |ancestor| ancestor != Consumer }.grep(Class)
                .flat_map { |klass| klass.public_instance_methods(false) }.uniq
      end

      # The hook that a misspelled method is meant to be. Not consume and process, because the class has one of them.
      # Not tick, because `tick_every` without it is an error. And no attribute, which has no code.
      def meant(consumer, name)
        hook = near(consumer, name)
        hook unless WORKS.key?(hook) || hook == :tick || code(consumer.instance_method(name)).nil?
      end

      def code(method) = RubyVM::InstructionSequence.of(method)

      # Does another method of the class mention the name, for example to call this one?
      def named_in?(consumer, name)
        consumer.ancestors.take_while { |ancestor| ancestor != Consumer }.any? do |owner|
          others = [*owner.instance_methods(false), *owner.private_instance_methods(false)] - [name]
          others.any? { |other| code(owner.instance_method(other))&.disasm.to_s.match?(/:#{name}\b/) }
        end
      end

      def work(consumer)
        name = methods(consumer).grep(WORK).first || consumer.private_instance_methods(false).grep(WORK).first
        right = name.match?(/batch|messages|consume/) ? :consume : :process if name
        unless name
          name, right = methods(consumer).map { |candidate| [candidate, near(consumer, candidate, arguments: false)] }
                                         .find { |_, hook| WORKS.key?(hook) } || []
        end
        name ? "rename #{name} to #{right}, which #{WORKS.fetch(right)}" : "define one of them"
      end

      def misspelled(consumer, hook)
        name = methods(consumer).find { |candidate| (HOOKS[candidate] || near(consumer, candidate)) == hook }
        name && "rename #{name} to #{hook}"
      end

      # The hook that a name is most likely meant to be: it begins alike, at most a quarter of it differs, and it takes
      # as many arguments.
      def near(consumer, name, arguments: true)
        text = name.to_s
        return if text.match?(/[^a-z_]/)

        CALLED.each_key.find do |hook|
          distance = ::DidYouMean::Levenshtein.distance(text, hook.to_s) if text[0] == hook[0] && defined?(::DidYouMean)
          distance && distance <= 2 && distance * 4 <= [text.size, hook.size].max &&
            (!arguments || takes?(consumer.instance_method(name), CALLED[hook]))
        end
      end

      def not_public(consumer)
        hidden = CALLED.keys.find { |name| !consumer.public_method_defined?(name) }
        hidden && "has a method #{hidden} that is not public: make it public"
      end

      # Each call would raise an ArgumentError.
      def wrong_arguments(consumer, own)
        needs = { initialize: 0, **CALLED.slice(*own) }
        name, count = needs.find { |method_name, given| !takes?(consumer.instance_method(method_name), given) }
        return unless name

        hint = { initialize: "do its work in `assigned`", process: "the message", around: "the name of the action",
                 consume: "read `messages`, or define process(message) instead" }[name]
        gets = count.zero? ? "needs arguments, but Pelton passes none" : "must take one argument"
        ["has a method #{name} that #{gets}", *hint].join(": ")
      end

      def takes?(method, count)
        kinds = method.parameters.map(&:first)
        most = kinds.include?(:rest) ? Float::INFINITY : kinds.count { |kind| %i[req opt].include?(kind) }
        !kinds.include?(:keyreq) && count.between?(kinds.count(:req), most)
      end

      private_class_method :classes, :own?, :methods, :meant, :code, :named_in?, :work, :misspelled, :near,
                           :not_public, :wrong_arguments, :takes?
    end
  end
end
