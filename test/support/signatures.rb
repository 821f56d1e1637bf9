# frozen_string_literal: true

require "pelton"
require "pelton/active_job/keys"
require "pelton/active_job/routes"
require "pelton/dead_letters"
require "pelton/metrics"
require "pelton/railtie/current_attributes"
require "pelton/schedule"
require "pelton/server/server"
require "pelton/testing"
require "pelton/testing/helpers"
require "pelton/topics"
require "pelton/topics/plan"
require "pelton/reporters/errors"
require "pelton/reporters/statsd"
require "pelton/reporters/log"
require "pelton/tracing"

# sig/pelton.rbs: the public classes as RBS. What there is comes from the loaded library; its types are the `#:` lines:
#   #: (String) -> Integer           above a method, attribute or define_method
#   #: (name: String, size: Integer) above several attributes; those it does not name, or that have no line, are what
#                                    the argument of this name is that `initialize` takes
#   #: (name: String) -> void        above a Struct: its members
#   #: def topic: () -> String       in a class: a method that is not defined in Ruby text
# `_Callable` is any object with `call`.
# Settings have theirs from their table, and so have events' listeners.
class Signatures
  ROOT = File.expand_path("../..", __dir__)
  FILE = File.join(ROOT, "sig/pelton.rbs")

  # The classes of PROJECT_RULES.md, "What is public", and the classes that their methods return; all errors; and the
  # modules that these include.
  PUBLIC = %w[
    Pelton App Consumer Producer Producer::Variant Producer::Transaction Producer::Middleware Admin ProducerPool
    RactorPool Parallel::Future Subscription Iterator Background Background::Stop Message Batch Batch::Part Origin
    Delivery DeliveryReport Poller EmbeddedCluster ExtensionValue Server Liveness Web Config Config::Polling
    Config::Liveness Notifications Events Events::Event Events::Kind Routing Routing::Dsl Routing::TopicWords
    Routing::Where
    Routing::Where::Clause Consuming::Failure Metrics DeadLetters DeadLetters::Letter DeadLetters::Result
    Schedule Schedule::ScheduledMessage
    Registry Registry::Schema Avro Avro::Decoder Avro::Serializer Reporters::Log Tracing
    Reporters::Errors Reporters::Statsd
    Testing Testing::BufferedProducer Testing::Cluster Testing::Message Testing::Helpers
    Admin::TopicDescription Admin::Partition Admin::ClusterDescription Admin::Broker Admin::Option
    Admin::GroupDescription Admin::Member Admin::Commit Admin::OffsetChange Admin::Acl
    Topics Topics::Words Topics::Plan Topics::Plan::Result Topics::Change ActiveJob::Keys
    MskIam CurrentAttributes Outbox Inbox
  ].freeze

  # Methods made by def_delegators: {class => the one that has their types}
  DELEGATES = { Pelton::Producer::Transaction => Pelton::Producer }.freeze
  GENERIC = { "Struct" => "Struct[untyped]", "Hash" => "Hash[untyped, untyped]" }.freeze
  # Methods of every Struct class.
  STRUCT = %i[new [] members keyword_init? inspect].freeze
  # Settings::TYPES → RBS
  SETTINGS = { name: "String", text: "String", count: "Integer", pool_size: "Integer", number: "Integer",
               memory: "Integer", memory_budget: "Integer",
               priority: "Integer", port: "Integer", seconds: "Numeric", positive_seconds: "Numeric",
               long_seconds: "Numeric", flag: "bool", callable: "untyped",
               kafka: "Hash[String, untyped]", logger: "untyped",
               poller: "Poller", tracer: "Tracing", nil => "Symbol" }.freeze
  LISTENERS = Pelton::Events::TABLE.each_key.map { |name| Pelton::Events.method_name(name) }.freeze
  # Further names that the types may use.
  CALLABLE = ["# Any object with this method.", "interface _Callable", "  def call: (untyped) -> untyped", "end"].freeze
  HEAD = "# Made by bin/sig of the `#:` lines in lib/: change those.\n\n"

  # Public methods without a type: ["Pelton::App#config", …]. Known after `text`.
  attr_reader :missing
  # [["Pelton::App#config", type, UnboundMethod], …] of the methods with their own type. Known after `text`.
  attr_reader :typed

  def initialize
    @files = Hash.new { |all, path| all[path] = File.readlines(path, chomp: true) }
    @missing = []
    @typed = []
    @public = {}.compare_by_identity
    PUBLIC.each { |name| add(name == "Pelton" ? Pelton : Pelton.const_get(name)) }
    ObjectSpace.each_object(Class) do |klass|
      add(klass) if klass < Pelton::Error && klass.name&.start_with?("Pelton::")
    end
    @declared = declared
  end

  # Classes and modules with something to write.
  def classes = @public.keys

  def text
    bodies = @public.keys.to_h { |mod| [mod, body(mod)] }
    others = bodies.flat_map { |mod, lines| lines.flat_map { |line| named(line, mod) } }
    others.concat(bodies.keys.filter_map { |mod| mod.superclass if mod.is_a?(Class) })
    all = [*bodies.keys, *others].select { |mod| ours?(mod) }.flat_map { |mod| nesting(mod) }.uniq
    tree = all.group_by { |mod| nesting(mod)[1] }
    "#{HEAD}#{render(Pelton, tree, bodies, "")}"
  end

  private

  def add(mod)
    return if @public.key?(mod)

    @public[mod] = true
    mod.ancestors.drop(1).each { |ancestor| add(ancestor) if ours?(ancestor) }
  end

  def ours?(mod) = mod.name.to_s.match?(/\APelton\b/)

  # Pelton::Producer::Variant → [itself, Pelton::Producer, Pelton]
  def nesting(mod)
    names = mod.name.split("::")
    names.size.downto(1).map { |size| Object.const_get(names.first(size).join("::")) }
  end

  # Modules of ours that the line names, looked up as Ruby and RBS do.
  def named(line, mod)
    line.gsub(/\bdef \S+/, "").scan(/(::)?\b([A-Z]\w*(?:::[A-Z]\w*)*)/).filter_map do |top, name|
      first, *rest = name.split("::")
      home = top ? Object : nesting(mod).find { |outer| outer.const_defined?(first, false) }
      found = rest.inject(home&.const_get(first, false)) { |within, part| within&.const_get(part, false) }
      found if found.is_a?(Module)
    end
  end

  def render(mod, tree, bodies, indent)
    lines = bodies.fetch(mod, []).map { |line| "#{indent}  #{line}\n" }
    inner = tree.fetch(mod, []).sort_by(&:name).map { |nested| render(nested, tree, bodies, "#{indent}  ") }
    parts = [lines.join, *inner].reject(&:empty?)
    "#{indent}#{header(mod)}\n#{parts.join("\n")}#{indent}end\n"
  end

  def header(mod)
    name = mod.name.split("::").last
    return "module #{name}" unless mod.is_a?(Class)

    above = mod.superclass.name
    above == "Object" ? "class #{name}" : "class #{name} < #{GENERIC[above] || "::#{above}"}"
  end

  def body(mod)
    [*(CALLABLE if mod == Pelton), *mixins(mod), *constants(mod), *members(mod),
     *methods(mod.singleton_class, "self.", mod), *methods(mod, "", mod)]
  end

  def mixins(mod)
    above = mod.is_a?(Class) ? mod.superclass.ancestors : []
    own = mod.included_modules - above
    # Without those that another one includes.
    own = own.reject { |mixin| own.any? { |other| other != mixin && other.include?(mixin) } }
    own.map { |mixin| "include #{mixin == Enumerable ? "Enumerable[#{element(mod)}]" : "::#{mixin.name}"}" }.sort
  end

  # Of `() { (Message) -> void } -> self`: Message
  def element(mod) = type(mod.instance_method(:each), mod)[/\{ \((.*?)\) ->/, 1]

  def constants(mod)
    mod.constants(false).sort.filter_map do |name|
      next if mod.autoload?(name, false)

      value = mod.const_get(name, false)
      "#{name}: #{class_of(value)}" unless value.is_a?(Module)
    end
  end

  def class_of(value)
    case value
    when Array
      classes = value.map { |nested| class_of(nested) }.uniq
      "Array[#{classes.one? ? classes[0] : "untyped"}]"
    when Hash then "Hash[untyped, untyped]"
    when String, Symbol, Integer, Float, Regexp then value.class.name
    else "untyped"
    end
  end

  # The lines of a class's (or its singleton's) own public methods, in the order of the text.
  def methods(owner, prefix, mod)
    names = owner.singleton_class? ? mod.singleton_methods(false) : owner.public_instance_methods(false)
    names -= owner.singleton_class? ? STRUCT : mod.members.flat_map { |name| [name, :"#{name}="] } if struct?(mod)
    names << :initialize if !owner.singleton_class? && owner.private_method_defined?(:initialize, false)
    rows = names.map { |name| row(owner.instance_method(name), name, prefix, mod) }
    rows.concat(rows_declared(mod, names)) unless owner.singleton_class?
    rows.compact.sort.map(&:last)
  end

  def struct?(mod) = mod.is_a?(Class) && mod < Struct

  # What only the native extension or a macro defines, and is in the text as `#: def`.
  def rows_declared(mod, names)
    @declared.fetch(mod.name, {}).except(*names).map { |name, (type, place)| [place, "def #{name}: #{type}"] }
  end

  # [place, "def topic: () -> String"]; nil: it has the type of the method that it overrides.
  def row(method, name, prefix, mod)
    label = "#{mod.name}#{prefix.empty? ? "#" : "."}#{name}"
    if (found = type(method, mod))
      @typed << [label, found, method]
      return [place(method, name, mod), "def #{prefix}#{name}: #{found}"]
    end

    @missing << label unless inherited?(name, prefix, mod)
    nil
  end

  def place(method, name, mod)
    file, line = method.source_location
    declared = @declared.dig(mod.name, name)
    return declared ? declared.last : ["~", 0, name.to_s] unless file&.start_with?(ROOT)

    [name == :initialize ? "" : file.delete_prefix(ROOT), line, name.to_s]
  end

  def type(method, mod)
    file, line = method.source_location
    if file&.start_with?(ROOT)
      above = type_above(file, line)
      return of_attribute(method, above, mod) if @files[file][line - 1].match?(/\A\s*(?:private )?attr_/)
      return above if above
    end
    delegate = DELEGATES[mod]
    return type(delegate.instance_method(method.name), delegate) if delegate && file && !file.start_with?(ROOT)

    declared = @declared.dig(mod.name, method.name)
    of_setting(method, mod) || of_listener(method) || declared&.first || nothing_given(method)
  end

  # The line above belongs to its reader.
  def of_attribute(method, above, mod)
    name = method.name.to_s.chomp("=").to_sym
    type = above.delete_prefix("() -> ") if above&.start_with?("() -> ")
    type ||= (above && parameters(above)[name]) || of_argument(name, mod) or return
    method.name.end_with?("=") ? "(#{type}) -> #{type}" : "() -> #{type}"
  end

  # Of initialize's argument of this name.
  def of_argument(name, mod)
    method = mod.instance_method(:initialize) if mod.is_a?(Class)
    file, line = method&.source_location
    types = parameters((type_above(file, line) if file) || return)
    types[name] || types[method.parameters.index { |_, parameter| parameter == name }]
  end

  # Of "(Integer, ?String?, ?limit: Integer) -> void", by position or name: {0 => "Integer", 1 => "String?", limit: …}
  def parameters(type)
    depth = 0
    inner = type.each_char.take_while { |char| !(depth += { "(" => 1, ")" => -1 }.fetch(char, 0)).zero? }.drop(1)
    inside = 0
    parts = inner.slice_after do |char|
      inside += { "[" => 1, "(" => 1, "]" => -1, ")" => -1 }.fetch(char, 0)
      char == "," && inside.zero?
    end
    parts.each_with_index.to_h do |chars, index|
      part = chars.join.delete_suffix(",").strip.delete_prefix("?")
      part.match(/\A([a-z_]+): (.*)\z/) { |found| [found[1].to_sym, found[2]] } || [index, part]
    end
  end

  def of_setting(method, mod)
    table = { Pelton::Config => Pelton::Settings::APP, Pelton::Config::Polling => Pelton::Settings::POLLING,
              Pelton::Config::Liveness => Pelton::Settings::LIVENESS }[mod]
    name = method.name.to_s.chomp("=").to_sym
    return unless table&.key?(name)

    setting = table.fetch(name)
    type = SETTINGS.fetch(setting.type)
    type += "?" if setting.default.nil? && type != "untyped"
    return "() -> #{type}" unless method.name.end_with?("=")

    type = "(Integer | String)?" if %i[memory memory_budget].include?(setting.type)
    "(#{type}) -> #{type}"
  end

  def of_listener(method) = ("(Events::Event) -> void" if LISTENERS.include?(method.name))

  def nothing_given(method) = ("() -> void" if method.name == :initialize && method.arity.zero?)

  # A Struct has readers only: it is usually frozen.
  def members(mod)
    return [] unless struct?(mod)

    file, line = Object.const_source_location(mod.name)
    given = type_above(file, line) if file&.start_with?(ROOT)
    types = parameters(given || "()").transform_keys { |name| name.is_a?(Integer) ? mod.members[name] : name }
    untold = mod.members - types.keys - @declared.fetch(mod.name, {}).keys
    @missing.concat(untold.map { |name| "#{mod.name}##{name}" })
    [*("def initialize: #{given}" if given), *types.map { |name, type| "def #{name}: () -> #{type}" }]
  end

  def inherited?(name, prefix, mod)
    return false if name == :initialize # without arguments it has a type anyhow
    return Module.method_defined?(name) unless prefix.empty?

    [*mod.ancestors.drop(1), Object, Kernel, BasicObject].any? do |ancestor|
      ancestor.private_method_defined?(name, false) || ancestor.method_defined?(name, false) ||
        @declared.dig(ancestor.name, name)
    end
  end

  # The `#:` lines of the comment that ends above this line.
  def type_above(file, line)
    above = @files[file][0, [line - 1, 0].max].reverse.take_while { |text| text.match?(/\A\s*#/) }.reverse
    found = above.filter_map { |text| text[/\A\s*#:\s+(?!def )(.*)/, 1] }.join(" ")
    found unless found.empty?
  end

  # {"Pelton::Message" => {topic: ["() -> String", place]}}
  def declared
    Dir.glob("lib/**/*.rb", base: ROOT).sort.each_with_object({}) do |path, all|
      classes = [] # [[indentation, name], …] around the line
      @files[File.join(ROOT, path)].each_with_index do |line, index|
        if (around = line.match(/\A(\s*)(?:class|module) ([A-Z][\w:]*)/))
          classes.pop while classes.any? && classes.last[0] >= around[1].size
          classes << [around[1].size, around[2]]
        elsif (found = line.match(/\A\s*#: def ([^\s(]+): (.*)/))
          names = all[classes.map(&:last).join("::")] ||= {}
          names[found[1].to_sym] = [found[2], ["/#{path}", index + 1, found[1]]]
        end
      end
    end
  end
end
