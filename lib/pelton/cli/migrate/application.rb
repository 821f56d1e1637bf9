# frozen_string_literal: true

require_relative "app_code"
require_relative "draft"
require_relative "expressions"
require_relative "routes"
require_relative "settings"
require_relative "usages"

module Pelton
  class CLI
    # What `pelton migrate` does: it reads the code of an application that uses another framework, and drafts the file
    # with Pelton's settings and routes.
    module Migrate
      # An application, read as a whole.
      #   application = Migrate::Application.new("."); application.findings; application.draft
      class Application
        PRODUCER = /\A(::)?WaterDrop::Producer\b/
        WORKERS = %w[Sidekiq::Job Sidekiq::Worker].freeze
        GROUP = "use the group's real name: `group_id` of racecar.yml, or group_id_prefix and the name of the class"
        PREFIX = "put your group_id_prefix in front of the group"
        private_constant :PRODUCER, :WORKERS, :GROUP, :PREFIX

        #: (String) -> void
        def initialize(path)
          @code = AppCode.new(path)
          @expressions = Expressions.new(@code)
          # {"OrdersConsumer" => "ApplicationConsumer"}
          @parents = {}
          # {"OrdersConsumer" => "app/orders_consumer.rb"}
          @homes = {}
          # Classes of Sidekiq's workers.
          @workers = []
          # Queues of Active Job's classes. Does Sidekiq run them?
          @queues = ["default"]
          @sidekiq = false
          # Constants and variables that are producers: ["KAFKA"]
          @names = []
          @settings = Draft.new
          @declared = Draft.new
          @routes = []
          # [file, class, Call, its `self.group_id` or nil] of each `subscribes_to`.
          @racecar = []
          # [file, Call] of each block of settings, of a producer's settings and of routes.
          @setups = []
          @producers = []
          @draws = []
        end

        # All files that were parsed, with their findings, in the order of files and lines.
        #: () -> Array[Finding]
        def findings
          read
          @code.files.flat_map { |file| file.findings.sort_by { |finding| [finding.line, finding.code] } }
        end

        #: () -> Array[String]
        def errors = @code.files && @code.errors

        #: () -> Integer
        def size = @code.files.size

        # Where the draft belongs: "config/pelton.rb" in Rails, otherwise "pelton.rb", below the path.
        #: () -> String
        def target = File.join(@code.root, @code.rails? ? "config/pelton.rb" : "pelton.rb")

        # true: nothing was found that a draft could have.
        #: () -> bool
        def empty? = read && [@settings, @declared, *@routes].all? { |lines| lines.lines.empty? }

        # The drafted file.
        #: () -> String
        def draft
          read
          [head, *section("Pelton.configure do |#{@variable}|", @settings),
           *section("Pelton.topics do", @declared), *@routes.flat_map { |lines| section("Pelton.routes do", lines) }]
            .join("\n")
        end

        private

        def read
          @read ||= begin
            @code.files.each { |file| names(file, file.root) }
            @code.files.each { |file| outline(file, file.root) }
            translate
            @code.files.each do |file|
              Usages.new(file, @parents, @workers, @names) { |name| @code.method?(name) }.report
            end
            true
          end
        end

        # Finds the blocks that are translated. parent: the superclass of the class around the node.
        def outline(file, node, parent = nil)
          parent = file.constant(node.children[1]) if node.is?(:class)
          call = Call.of(node)
          blocks(file, call, parent) if call&.block && call.node.equal?(node)
          node.nodes.each { |part| outline(file, part, parent) }
        end

        # Finds classes and producers, which other files name. within: the modules around the node.
        def names(file, node, within = [])
          if node.is?(:class, :module)
            within += [file.text(node.children[0])]
            klass(file, node, within) if node.is?(:class)
          elsif node.is?(:assign, :opassign) && file.text(node.children.last).match?(PRODUCER)
            @names << file.text(node.children.first)
          elsif (call = Call.of(node))&.name == "queue_adapter="
            @sidekiq ||= Call.literal(call.args.first).to_s == "sidekiq"
          end
          node.nodes.each { |part| names(file, part, within) }
        end

        def klass(file, node, within)
          name, parent, body = node.children
          @parents[file.text(name)] = file.constant(parent).to_s if parent
          @homes[file.text(name)] ||= file.path
          words(file, file.text(name), within.join("::"), body)
        end

        # What the body of a class says of itself. path: its name with those of its modules.
        def words(file, name, path, body)
          calls = Call.statements(body).filter_map { |one| Call.of(one) }
          group = calls.find { |call| call.name == "group_id=" && file.text(call.receiver) == "self" }&.args&.first
          calls.reject(&:receiver).each do |call|
            case call.name
            when "subscribes_to" then @racecar << [file, path, call, Call.literal(group)]
            when "queue_as" then queue(call)
            when "include" then @workers << name if WORKERS.include?(file.constant(call.args.first))
            end
          end
        end

        def queue(call)
          name = Call.literal(call.args.first)
          @queues |= [name.to_s] if name
        end

        def blocks(file, call, parent)
          receiver = call.receiver ? file.text(call.receiver) : ""
          app = receiver.sub(/(\A|\.)(routes|consumer_groups)\z/, "")
          if producer?(file, call) then @producers << [file, call]
          elsif !app?(["", "self"].include?(app) ? parent : app) then nil
          elsif call.name == "setup" && app == receiver then @setups << [file, call]
          elsif call.name == "draw" && app != receiver then @draws << [file, call]
          end
        end

        # Is it Karafka's app, or a subclass? A `setup` of another class is something else.
        def app?(name)
          20.times { break if name.nil? || name == "Karafka::App" || (name = @parents[name]).nil? }
          name == "Karafka::App"
        end

        def producer?(file, call)
          receiver = file.text(call.receiver)
          case call.name
          when "new" then receiver.match?(PRODUCER)
          when "setup" then @names.include?(receiver) || receiver.match?(/producer\z/i)
          end
        end

        def translate
          found = @setups.map { |file, call| setup(file, call, SETTINGS) }
          @producers.each { |file, call| producer(file, call) }
          group = found.filter_map { |one| one.given["group_id"] }.first
          default_group(found.any?, group)
          @defaults = found.flat_map(&:defaults)
          concurrency = found.filter_map { |one| one.given["concurrency"] }.map { |node| Call.literal(node) }.first
          partitioner
          @draws.each { |file, call| routes(file, call, (concurrency || 5).to_s) }
          @racecar.each { |one| racecar(*one) }
          active_jobs if @sidekiq
        end

        def setup(file, call, rows, draft = @settings)
          name = Call.parameters(call.block).first || "config"
          main = draft.equal?(@settings)
          @variable ||= name if main
          file.found(call.node, main ? :same : :differs, "#{main ? "Pelton" : "app"}.configure do |#{name}|",
                     ("a producer of its own: app = Pelton::App.new, then app.producer" unless main))
          Settings.new(file, draft, @expressions, rows).tap { |settings| settings.translate(call.block, name) }
        end

        # The first producer's settings are the app's, if it has no others.
        def producer(file, call)
          first = @setups.empty? && @producers.first.last.equal?(call)
          setup(file, call, PRODUCER_SETTINGS, first ? @settings : Draft.new)
          return if first

          @settings.todo("#{file.path}:#{call.line}: a producer with settings of its own: make a Pelton::App for it, " \
                         "or use Pelton.producer")
        end

        # Karafka's own default is "app".
        def default_group(karafka, node)
          @group = node ? "\"#{Call.literal(node) || "app"}\"" : "\"app\""
          return unless karafka && node.nil?

          @settings.code("#{@variable}.group_id = \"app\" # Karafka's default")
        end

        # WaterDrop and Racecar leave librdkafka's default.
        def partitioner
          if @settings.lines.empty? && @racecar.any?
            @settings.todo("set what racecar.yml sets: config.kafka = { \"bootstrap.servers\" => … }")
            same_partitions("Racecar", "coming-from-racecar")
          elsif @settings.lines.any? && @settings.lines.none? { |line| line.include?("partitioner") }
            same_partitions("WaterDrop", "moving-from-karafka")
          end
        end

        def same_partitions(gem, guide)
          @variable ||= "config"
          @settings.code("# Keys go to the same partitions as with #{gem}. See docs/guides/#{guide}.md.")
          @settings.code("#{@variable}.kafka = { **#{@variable}.kafka, \"partitioner\" => \"consistent_random\" }")
        end

        def routes(file, call, concurrency)
          file.found(call.node, :same, "Pelton.routes do")
          draft = Draft.new
          @defaults.each { |line| draft.code("defaults { #{line} }") }
          from = @defaults.include?("from :end") ? ":end" : ":beginning"
          Routes.new(file, draft, @expressions, declared: @declared, group: @group, concurrency: concurrency,
                                                from: from)
                .translate(call.block)
          @routes << draft
        end

        # group: the class's own; nil: Racecar derives it from the class.
        def racecar(file, name, call, group)
          topics = call.args.map { |node| Call.literal(node) }
          return unless topics.any? && topics.all?(String)

          from_end = " { from :end }" if Call.literal(call.keywords["start_from_beginning"]) == false
          lines = topics.map { |topic| "topic(#{topic.inspect}, to: #{name.inspect})#{from_end}" }
          head = "group #{(group || derived(name)).inspect} do"
          file.found(call.node, :same, [head, *lines, "end"].join("; "), (PREFIX unless group))
          draft = Draft.new
          draft.todo(GROUP) unless group
          draft.block(head) { draft.code(lines.join("\n")) }
          @routes << draft
        end

        # Shop::UserBanConsumer → "shop-user-ban-consumer"
        def derived(name) = name.gsub("::", "-").gsub(/([a-z\d])(?=[A-Z])/, "\\1-").downcase

        # The queues of jobs that Sidekiq runs.
        def active_jobs
          draft = Draft.new
          draft.todo("add the queues that are named elsewhere, as by set(queue:) or for mails")
          draft.code("active_jobs #{@queues.map(&:inspect).join(", ")}")
          @routes << draft
        end

        def head
          files = @code.files.reject { |file| file.findings.empty? }.map(&:path)
          lines = ["# frozen_string_literal: true", "",
                   "# Drafted by `pelton migrate`. Look at each TODO, and delete these comments."]
          lines << "# No settings and no routes were found." if files.empty?
          lines += ["", *("require \"pelton\"" unless @code.rails?)]
          lines += @expressions.libraries.map { |name| "require #{name.inspect}" }
          lines += @expressions.files.map { |name| "require_relative #{name.inspect}" }
          lines += consumers unless @code.rails?
          lines.join("\n").strip
        end

        # Lines that load the consumers, base classes first.
        def consumers
          found = @parents.keys.select { |name| Usages.kind(@parents[name], @parents) }
          files = found.sort_by { |name| ancestors(name) }.map { |name| @homes[name].delete_suffix(".rb") }.uniq
          return [] if files.empty?

          ["# TODO load the consumers, once they are subclasses of Pelton::Consumer:",
           *files.map { |file| "# require_relative #{file.inspect}" }]
        end

        # How many superclasses of a class the application has.
        def ancestors(name)
          count = 0
          count += 1 while count < 20 && (name = @parents[name])
          count
        end

        def section(head, draft)
          return [] if draft.lines.empty?

          ["", head, *draft.lines.map { |line| line.empty? ? line : "  #{line}" }, "end"]
        end
      end
    end
  end
end
