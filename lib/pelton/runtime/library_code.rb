# frozen_string_literal: true

require "rbconfig"

module Pelton
  # Tells lines of Ruby itself and of installed gems from those of the application. A gem that Bundler takes from a
  # `path:` counts as the application.
  module LibraryCode
    # [Gem.path, the folders that follow from it], replaced as a whole.
    @folders = nil

    module_function

    #   LibraryCode.line?("/var/lib/gems/3.1.0/gems/puma-5.6.5/lib/puma/server.rb:10") # => true
    #: (String) -> bool
    def line?(line) = line.start_with?("<internal:", *folders)

    # The first line of a backtrace, and the application's line that led there: "…/relation.rb:61:in `find', called
    # from app/consumers/orders_consumer.rb:7:in `consume'". nil without a backtrace.
    #: (Array[String]?) -> String?
    def location(backtrace)
      lines = backtrace&.reject { |line| line.start_with?("<internal:") }
      return if lines.nil? || lines.empty?

      own = own_line(lines) if line?(lines.first)
      [lines.first, *own].join(", called from ")
    end

    # A backtrace without Pelton's lines at its top; as it is, if the application has no line in it.
    #: (Array[String]) -> Array[String]
    def without_pelton(backtrace)
      rest = backtrace.drop_while { |line| line.start_with?("<internal:", OURS) }
      own_line(rest) ? rest : backtrace
    end

    # The application's line in a backtrace: "config/pelton.rb:12". nil: there is none.
    #: (Array[String]?) -> String?
    def own_location(backtrace)
      own_line(backtrace.to_a)&.sub(/:in [`'].*/m, "")&.delete_prefix("#{Dir.pwd}/")
    end

    # The call of Pelton that led to these locations: "`producer_pool` in app/pool.rb:3". nil: Pelton's command did.
    #: (Array[Thread::Backtrace::Location]) -> String?
    def call_of_pelton(locations)
      at = locations.index { |location| !location.path.start_with?("<internal:", OURS, FACE) } || 0
      called = locations[at - 1] if at.positive?
      return if called.nil? || called.path.start_with?(COMMAND)

      place = "#{locations[at].path}:#{locations[at].lineno}".delete_prefix("#{Dir.pwd}/")
      "`#{called.base_label}` in #{place}"
    end

    def own_line(lines) = lines.find { |line| !line?(line) && !line.start_with?(OURS) }

    # Pelton's own files, which are no gem in a working copy.
    OURS = File.expand_path("..", __dir__).concat("/").freeze
    FACE = File.expand_path("../../pelton.rb", __dir__).freeze
    COMMAND = "#{OURS}cli/".freeze
    private_constant :OURS, :FACE, :COMMAND

    # Of Ruby, and of gems. Bundler changes Gem.path.
    def folders
      paths = defined?(::Gem) ? ::Gem.path : []
      return @folders.last if @folders&.first == paths

      gems = paths.flat_map { |path| ["#{path}/gems/", "#{path}/bundler/gems/"] }
      ruby = RbConfig::CONFIG.values_at("rubylibdir", "vendordir", "sitedir").compact.map { |path| "#{path}/" }
      (@folders = [paths.dup, [*gems, *ruby].freeze].freeze).last
    end
    private_class_method :folders, :own_line
  end
end
