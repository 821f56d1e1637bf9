# frozen_string_literal: true

module Pelton
  class CLI
    # What the body of a command's class says about the command. A subclass adds to what its superclass says.
    #   class GroupsLag < Command
    #     details "Counts the messages between the committed offsets and the ends."
    #     example "pelton groups lag billing --json", "for scripts"
    #     arguments "GROUP", "[TOPIC...]"
    #     option :max, "--max N", "exit with 1 if the lag is above this", type: Integer
    #     connects
    #   end
    module Declarations
      # One option. name: :max, the key in `options`; switches: ["-m", "--max N"]; choices: the only values that are
      # allowed; many: repeatable, an Array; section: its heading in the help.
      Option = Struct.new(:name, :switches, :text, :type, :choices, :default, :many, :section, :convert,
                          keyword_init: true) do
        # The value in `options`: converted, and added to those before it if the option is repeatable.
        #: (untyped, untyped) -> untyped
        def accept(value, before)
          value = convert.call(value) if convert
          many ? [*before, *value] : value
        end

        # ["-m", "--max"]; for "--[no-]log", ["--log", "--no-log"].
        #: () -> Array[String]
        def names
          switches.flat_map do |switch|
            name = switch[/\A[^ =]+/]
            name.include?("[no-]") ? [name.sub("[no-]", ""), name.sub("[no-]", "no-")] : [name]
          end
        end

        # What its value is called, "FILE"; nil if it has none, or may have none, as in "--watch [SECONDS]".
        #: () -> String?
        def value = switches.last[/[ =]([^\s\[]\S*)/, 1]

        #: () -> String
        def help
          notes = [*choices&.join(", "), *("default: #{default}" if default), *("repeatable" if many)]
          notes.empty? ? text : "#{text} (#{notes.join("; ")})"
        end
      end

      #: (Class) -> void
      def inherited(subclass)
        super
        subclass.declared.merge!(declared.transform_values(&:dup))
      end

      # {options: [Option, …], examples: [["pelton info", nil], …], details: ["…"], arguments: ["TOPIC", "[TOPIC...]"]}
      #: () -> Hash[Symbol, Array[untyped]]
      def declared = @declared ||= { options: [], examples: [], details: [], arguments: [] }

      # A paragraph of the help. Wrap it at 100 characters.
      #: (String) -> void
      def details(text) = declared[:details] << text.strip

      # A call that works, and what it is for. Each command has at least one.
      #: (String, ?String?) -> void
      def example(call, why = nil) = declared[:examples] << [call, why]

      # Names of the arguments: "TOPIC" is required, "[TOPIC]" optional, "TOPIC..." one or more, "[TOPIC...]" any
      # number, "bash|zsh" one of these words.
      #: (*String) -> void
      def arguments(*names) = declared[:arguments].replace(names)

      # An option. Its value is options[name]: nil, or `default`, if it is not given; [] if it is repeatable. type: as
      # in OptionParser (Integer, Float, Array); a Float is >= 0. choices: the only values allowed. The block
      # converts the value; it may raise ConfigError.
      #   option :from, "--from POSITION", "where to begin" do |text| … end
      #: (Symbol, *String, ?type: Class?, ?choices: Array[String]?, ?default: untyped, ?many: bool, ?section: String)
      #:   ?{ (untyped) -> untyped } -> void
      def option(name, *switches, text, type: nil, choices: nil, default: nil, many: false, section: "Options",
                 &convert)
        declared[:options].reject! { |other| other.name == name }
        declared[:options] << Option.new(name: name, switches: switches, text: text, type: type, choices: choices,
                                         default: default, many: many, section: section, convert: convert)
      end

      # The command may load an app and connect to Kafka: -r, --bootstrap, --config, -X. See Connection.
      #: () -> void
      def connects
        section = "Connection"
        option :require, "-r", "--require FILE", "load this file first (default: the Rails app of this folder)",
               many: true, section: section
        option :bootstrap, "--bootstrap HOST:PORT", "brokers to connect to; a list with commas", section: section
        option :config, "--config FILE", "YAML with librdkafka's options", section: section
        option :kafka, "-X NAME=VALUE", "one option of librdkafka", many: true, section: section
      end

      # The command concerns the routes, and may be narrowed to some. See Selection.
      #: () -> void
      def narrows
        section = "Groups and topics"
        { "groups" => "-g", "topics" => "-t" }.each do |kind, short|
          only = "only these #{kind}: a list with commas, `*` matches anything"
          option :"include_#{kind}", short, "--include-#{kind} NAMES", only, many: true, section: section
          option :"exclude_#{kind}", "--exclude-#{kind} NAMES", "not these #{kind}", many: true, section: section
        end
      end

      # The command asks before it changes something (Command#confirm), unless --yes is given.
      #: () -> void
      def confirms = option(:yes, "-y", "--yes", "do not ask for confirmation")

      # true: the command changes something.
      #: () -> bool
      def changes? = declared[:options].any? { |option| %i[yes apply].include?(option.name) }

      # The command prints no results, so it has no --json.
      #: () -> void
      def no_json = declared[:options].reject! { |option| option.name == :json }
    end
  end
end
