# frozen_string_literal: true

require_relative "../runtime/container"

module Pelton
  # `pelton server` runs Ruby with a larger heap: a small process that reads every payload then spends half as much time
  # on garbage collection (decision 16). It also has fewer of glibc's malloc arenas, which keep what is free in them: as
  # many as Ractors can run at a time, instead of eight times that. Ruby and glibc read these variables only at the
  # start, so the process executes itself once more, with the same process id and before anything is loaded. `--no-tune`
  # keeps it from that, and so does any RUBY_GC_HEAP_… variable of the user.
  module LargerHeap
    VARIABLES = { "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO" => "0.5", "RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO" => "0.7",
                  "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO" => "0.9" }.freeze
    ARENAS = "MALLOC_ARENA_MAX"
    FEW_ARENAS = 2
    OFF = "--no-tune"
    # Set for the second start only, so that there is no third one: the names of the variables.
    MARK = "PELTON_LARGER_HEAP"
    SKIPPED_BY = [OFF, "-h", "--help"].freeze
    private_constant :MARK, :SKIPPED_BY

    class << self
      # Called by exe/pelton, before Pelton is loaded. Returns only if this process need not start again. A command that
      # the app starts shall not inherit the variables.
      #: (Array[String], ?env: Hash[String, String], ?command: Array[String], ?exec: ^(*untyped) -> untyped) -> void
      def apply(arguments, env: ENV, command: command_line(arguments), exec: Kernel.method(:exec))
        if (names = env.delete(MARK))
          @active = true
          names.split(",").each { |name| env.delete(name) }
        elsif wanted?(arguments, env) && command
          variables = variables(env)
          exec.call({ **variables, MARK => variables.keys.join(",") }, *command)
        end
      rescue SystemCallError
        nil # Ruby's own heap does as well
      end

      # Has this process the larger heap?
      #: () -> bool
      def active? = @active == true

      # For another program: "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO=0.5 …".
      #: () -> String
      def to_s = { **VARIABLES, ARENAS => FEW_ARENAS }.map { |pair| pair.join("=") }.join(" ")

      # What started this process: ["ruby", "-Ilib", "exe/pelton", "server"]. `bundle exec` overwrites it with a title.
      # nil if another program has loaded exe/pelton.
      #: (Array[String], ?String, ?program: String) -> Array[String]?
      def command_line(arguments, text = File.binread("/proc/self/cmdline"), program: $PROGRAM_NAME)
        words = text.split("\0", -1)[0...-1]
        return words if words.last(arguments.size) == arguments.map(&:b) && pelton?(words[-arguments.size - 1])

        named(program, arguments)
      rescue SystemCallError
        named(program, arguments) # not Linux
      end

      private

      def variables(env)
        return VARIABLES if env.key?(ARENAS)

        cores = Container.cores(read: File.method(:read)) # the native extension is not loaded yet
        { **VARIABLES, ARENAS => [cores, FEW_ARENAS].max.to_s }
      end

      def named(program, arguments) = ([RbConfig.ruby, program, *arguments] if pelton?(program) && File.file?(program))
      def pelton?(program) = File.basename(program.to_s) == "pelton"

      def wanted?(arguments, env)
        RUBY_ENGINE == "ruby" && arguments.first == "server" && (arguments & SKIPPED_BY).empty? &&
          env.none? { |name, _| name.start_with?("RUBY_GC_HEAP_") }
      end
    end
  end
end
