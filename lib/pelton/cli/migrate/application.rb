# frozen_string_literal: true

require_relative "app_code"
require_relative "definitions"
require_relative "draft"
require_relative "expressions"
require_relative "producer_settings"
require_relative "routes"
require_relative "separate_producer"
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
        GROUP = "use the group's real name: `group_id` of racecar.yml, or group_id_prefix and the name of the class"
        PREFIX = "put your group_id_prefix in front of the group"
        TWO_CLUSTERS = "the producer's bootstrap.servers are not those of config.kafka, so these are two clusters"
        ONE_CLUSTER = "and use its producer instead of Karafka.producer. If both mean one cluster, add the options " \
                      "to config.kafka instead"
        private_constant :GROUP, :PREFIX, :TWO_CLUSTERS, :ONE_CLUSTER

        #: (String) -> void
        def initialize(path)
          @code = AppCode.new(path)
          @expressions = Expressions.new(@code)
          @definitions = Definitions.new
          @settings = Draft.new
          @declared = Draft.new
          # The options of the app's kafka.
          @kafka = KafkaOptions.new(nil, nil)
          @routes = []
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
            @code.files.each { |file| @definitions.read(file) }
            @code.also(@definitions.producers.grep(/\A[A-Z]/)).each { |file| @definitions.read(file) }
            @code.files.each { |file| outline(file, file.root) }
            translate
            @code.files.each do |file|
              Usages.new(file, @definitions) { |name| @code.method?(name) }.report
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

        def blocks(file, call, parent)
          receiver = call.receiver ? file.text(call.receiver) : ""
          app = receiver.sub(/(\A|\.)(routes|consumer_groups)\z/, "")
          if producer?(file, call) then @producers << [file, call]
          elsif !@definitions.app?(["", "self"].include?(app) ? parent : app) then nil
          elsif call.name == "setup" && app == receiver then @setups << [file, call]
          elsif call.name == "draw" && app != receiver then @draws << [file, call]
          end
        end

        def producer?(file, call)
          receiver = file.text(call.receiver)
          case call.name
          when "new" then receiver.match?(Definitions::PRODUCER)
          when "setup" then @definitions.producers.include?(receiver) || receiver.match?(/producer\z/i)
          end
        end

        def translate
          found = @setups.map { |file, call| setup(file, call, SETTINGS) }
          producers(found)
          @group = "\"#{literal(found, "group_id") || "app"}\""
          id = literal(found, "client_id")
          @client_id = id if id.is_a?(String)
          @defaults = found.flat_map(&:defaults)
          concurrency = concurrency(found)
          routed = @draws.map { |file, call| routes(file, call, concurrency) }
          karafka_defaults(found, routed) if found.any?
          partitioner
          @definitions.racecar.each { |declaration| racecar(*declaration) }
          active_jobs if @definitions.sidekiq?
        end

        # The first value that the settings give to a name, a Node; or nil.
        def first(settings, name) = settings.filter_map { |setup| setup.given[name] }.first
        def literal(settings, name) = Call.literal(first(settings, name))

        # The code of config.concurrency for the routes. A computed one is asked for: its variables end with its block.
        def concurrency(settings)
          return "5" unless first(settings, "concurrency") # Karafka's default

          literal(settings, "concurrency")&.to_s || "Pelton.config.concurrency"
        end

        # settings: those of Karafka, which may have a producer.
        def producers(settings)
          own = settings.filter_map { |setup| setup.given["producer"]&.start }
          @producers.each do |file, call|
            if own.include?(call.node.start) then app_producer(file, call)
            # The first producer's settings are the app's, if it has no others.
            elsif @setups.empty? && @producers.first.last.equal?(call) then setup(file, call, PRODUCER_SETTINGS)
            else separate(file, call, "a producer with settings of its own", "or use Pelton.producer")
            end
          end
        end

        def setup(file, call, rows)
          name = variable(call)
          @variable ||= name
          file.found(call.node, :same, "Pelton.configure do |#{name}|")
          settings = Settings.new(file, @settings, @expressions, rows)
          settings.translate(call.block, name)
          @kafka.add(settings.known)
          settings
        end

        # Karafka's own producer: its settings are the app's, unless it has another cluster.
        def app_producer(file, call)
          name = variable(call)
          own = KafkaOptions.new(file, name).read(call.block)
          return separate(file, call, TWO_CLUSTERS, ONE_CLUSTER) if @kafka.other_cluster?(own)

          ProducerSettings.new(file, @settings, @expressions, @variable, @kafka).translate(call.block, name)
          @kafka.add(own)
        end

        def separate(file, call, why, choice)
          name = variable(call)
          file.found(call.node, :differs, "app.configure do |#{name}|",
                     "a producer of its own: app = Pelton::App.new, then app.producer")
          settings = SeparateProducer.new(file, @expressions)
          settings.translate(call.block, name)
          partitioner = " with #{Settings::PARTITIONER}," unless settings.known.given?("partitioner")
          @settings.todo("#{file.path}:#{call.line}: #{why}: make a Pelton::App for it,#{partitioner} #{choice}")
        end

        def variable(call) = Call.parameters(call.block).first || "config"

        # What Karafka has without a setting. No group_id if all topics are in groups with names of their own.
        def karafka_defaults(settings, routed)
          unset = ->(name) { first(settings, name).nil? }
          grouped = routed.any? && routed.none?(&:default_group?) && !@definitions.sidekiq?
          @settings.code("#{@variable}.group_id = \"app\" # Karafka's default") if unset.("group_id") && !grouped
          @settings.code("#{@variable}.shutdown_timeout = #{Settings::STOPS}") if unset.("shutdown_timeout")
        end

        # WaterDrop and Racecar leave librdkafka's default.
        def partitioner
          if @settings.lines.empty? && @definitions.racecar.any?
            @settings.todo("set what racecar.yml sets: config.kafka = { \"bootstrap.servers\" => … }")
            same_partitions("Racecar", "coming-from-racecar")
          elsif @settings.lines.any? && !@kafka.given?("partitioner")
            same_partitions("WaterDrop", "moving-karafka-groups")
          end
        end

        def same_partitions(gem, guide)
          @variable ||= "config"
          @settings.add("#{@variable}.kafka", Settings::PARTITIONER,
                        "partitioner: keys go to the partitions that #{gem} chose. See docs/guides/#{guide}.md.")
        end

        def routes(file, call, concurrency)
          file.found(call.node, :same, "Pelton.routes do")
          draft = Draft.new
          draft.short_block("defaults", @defaults)
          from = @defaults.include?("from :end") ? ":end" : ":beginning"
          routes = Routes.new(file, draft, @expressions, declared: @declared, group: @group, concurrency: concurrency,
                                                         from: from, options: @kafka) { |name| transactional_id(name) }
          routes.translate(call.block)
          @routes << draft
          routes
        end

        # The code of an id, if the consumers of a class call `transaction`.
        def transactional_id(name) = ((@client_id || "app").inspect if name && @definitions.transaction?(name))

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
          draft.todo("set schedule_topic in config/pelton.yml, for `wait:` and `retry_on`")
          draft.code("active_jobs #{@definitions.queues.map(&:inspect).join(", ")}")
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
          files = @definitions.consumers
          return [] if files.empty?

          ["# TODO load the consumers, once they are subclasses of Pelton::Consumer:",
           *files.map { |file| "# require_relative #{file.inspect}" }]
        end

        def section(head, draft)
          return [] if draft.lines.empty?

          ["", head, *draft.lines.map { |line| line.empty? ? line : "  #{line}" }, "end"]
        end
      end
    end
  end
end
