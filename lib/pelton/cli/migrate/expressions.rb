# frozen_string_literal: true

require_relative "call"

module Pelton
  class CLI
    module Migrate
      # Decides which code of the old files the draft may have: only what can run when the draft is loaded. A constant
      # must be Ruby's, the Rails app's, or in a file that needs no other framework, which the draft then requires.
      class Expressions
        STANDARD = { "JSON" => "json", "YAML" => "yaml", "Logger" => "logger", "Etc" => "etc", "URI" => "uri",
                     "SecureRandom" => "securerandom", "Socket" => "socket", "Date" => "date", "ERB" => "erb",
                     "Set" => "set" }.freeze
        RUBY = %w[ENV Integer Float String Array Hash Regexp Time Dir File Process Rational Comparable Kernel
                  RUBY_VERSION RUBY_ENGINE RUBY_PLATFORM].freeze
        CALLS = %w[Integer Float String Array lambda proc format rand].freeze
        # What ActiveSupport adds to numbers.
        DURATIONS = %w[second seconds minute minutes hour hours day days week weeks in_milliseconds megabytes
                       kilobytes].freeze
        OTHERS = /\b(Karafka|WaterDrop|Racecar|Rdkafka|Sidekiq)\b/
        LATER = %i[lambda brace_block do_block def].freeze
        private_constant :STANDARD, :RUBY, :CALLS, :DURATIONS, :OTHERS, :LATER

        # rails: the app autoloads its constants.
        #: (AppCode, rails: bool) -> void
        def initialize(code, rails: code.rails?)
          @rails = rails
          @home = code.method(:home)
          @mixed = code.method(:mixed_home)
          # What the draft has to load: ["json"], ["./app/order_decoder"]
          @libraries = []
          @files = []
          # Local variables that the draft has.
          @locals = []
        end

        #: Array[String]
        attr_reader :libraries, :files

        #: () -> bool
        def rails? = @rails

        # Knows these local variables within the block.
        #: (Array[String]) { () -> untyped } -> untyped
        def with_locals(names)
          before = @locals
          @locals += names
          yield
        ensure
          @locals = before
        end

        # Knows no local variables within the block.
        #: () { () -> untyped } -> untyped
        def without_locals
          before = @locals
          @locals = []
          yield
        ensure
          @locals = before
        end

        #: (String) -> void
        def add_local(name) = @locals += [name]

        # Why the code of a node cannot be in the draft; nil: it can.
        #: (CodeFile, Node) -> String?
        def problem(file, node)
          return "its code cannot be copied alone" unless file.whole?(node)

          needs = []
          why = obstacle(file, node, @locals, needs)
          needs.each { |kind, name| load(kind, name) } unless why
          why
        end

        private

        def load(kind, name)
          list = kind == :library ? @libraries : @files
          list << name unless list.include?(name)
        end

        def obstacle(file, node, locals, needs, later: false)
          if (name = file.constant(node)) then return constant(name, needs, later: later) end
          if node.is?(:symbol_literal, :@label) then return end

          why = later ? nil : call(file, node, locals) || variable(node, locals)
          later ||= LATER.include?(node.type)
          why || each_part(node) { |part| obstacle(file, part, locals, needs, later: later) }
        end

        def each_part(node)
          node.nodes.each { |part| (why = yield(part)) && (return why) }
          nil
        end

        def constant(name, needs, later:)
          return "it uses #{name}" if name.match?(OTHERS)
          return if later || @rails || RUBY.include?(name.split("::").first)

          library = STANDARD[name.split("::").first]
          found = library ? [:library, library] : @home.call(name)&.then { |path| [:file, path] }
          return elsewhere(name) unless found

          needs << found
          nil
        end

        def elsewhere(name)
          file = @mixed.call(name) or return "it uses #{name}, which no file of the app defines"
          "it uses #{name} of #{file}, which also has code for another framework: move #{name} to a file of its own"
        end

        def call(file, node, _locals)
          found = Call.of(node) if node.is?(:vcall, :fcall, :command, :call, :method_add_arg)
          return unless found
          return "it calls `#{found.name}` of the app" if found.receiver.nil? && !CALLS.include?(found.name)

          number = found.receiver&.is?(:@int, :@float)
          "it calls `#{file.text(node)}` of ActiveSupport" if number && !@rails && DURATIONS.include?(found.name)
        end

        def variable(node, locals)
          return unless node.is?(:var_ref)

          token = node.nodes.first
          return "it uses #{token.token}" if token.is?(:@ivar, :@cvar, :@gvar)

          "it uses the variable #{token.token}" if token.is?(:@ident) && !locals.include?(token.token)
        end
      end
    end
  end
end
