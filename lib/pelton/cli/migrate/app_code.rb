# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../message/karafka_origin"
require_relative "code_file"
require_relative "subscribers"

module Pelton
  class CLI
    module Migrate
      # The Ruby files of an application. Files that cannot concern messages are searched as text only.
      class AppCode
        NAMES = %w[**/*.rb **/*.ru **/*.rake **/Gemfile **/Rakefile **/*.gemspec].freeze
        SKIPPED = %r{(\A|/)(vendor|node_modules|tmp|log|coverage|public|\.\w+)/}
        # Only files with one of these words are parsed.
        WORDS = /karafka|waterdrop|rdkafka|racecar|sidekiq|ruby-kafka|delivery_boy|consumer|perform_(async|in|at)|
                 queue_as|message\.metadata\b|Pelton\.producer|#{Regexp.union(KarafkaOrigin::HEADERS)}/ix
        FOREIGN = /\b(Karafka|WaterDrop|Racecar|Rdkafka)\b/
        private_constant :NAMES, :SKIPPED, :WORDS, :FOREIGN

        # The folder of the application.
        #: String
        attr_reader :root
        # What could not be read: ["karafka.rb:3: syntax error"]
        #: Array[String]
        attr_reader :errors

        # Raises ConfigError if there is nothing at the path.
        #: (String) -> void
        def initialize(path)
          raise ConfigError.new("PATH", path, "does not exist") unless File.exist?(path)

          @root = File.directory?(path) ? path : File.dirname(path)
          @errors = []
          # {"app/models/order.rb" => text}
          @texts = names(path).sort.to_h { |name| [name, read(name)] }.compact
        end

        # true: a Rails application, which loads its own constants.
        #: () -> bool
        def rails? = File.exist?(File.join(@root, "config/application.rb"))

        # The files that are parsed.
        #: () -> Array[CodeFile]
        def files
          @files ||= @texts.filter_map { |name, text| parse(name, text) if text.match?(WORDS) || Subscribers.in?(text) }
        end

        # Parses the files that name one of these constants, too, and returns them.
        #: (Array[String]) -> Array[CodeFile]
        def also(constants)
          return [] if constants.empty?

          known = files.to_h { |file| [file.path, true] }
          pattern = /\b#{Regexp.union(constants)}\b/
          added = @texts.filter_map { |name, text| parse(name, text) if !known.key?(name) && text.match?(pattern) }
          @files = (@files + added).sort_by(&:path)
          added
        end

        # true: some file defines a method of this name.
        #: (String) -> bool
        def method?(name)
          @methods ||= @texts.each_value.with_object({}) do |text, found|
            text.scan(/\bdef\s+(?:self\.)?(\w+[?!=]?)/) { found[$1] = true }
            text.scan(/^\s*(?:attr_\w+|delegate|define_method|def_delegators?)\b(.*)$/) do
              $1.scan(/:(\w+[?!]?)/) { found[$1] = true }
            end
          end
          @methods.key?(name)
        end

        # The file that defines a constant, without ".rb", if it needs no other framework; otherwise nil.
        #: (String) -> String?
        def home(constant) = definitions(constant).find { |_, text| !text.match?(FOREIGN) }&.first&.delete_suffix(".rb")

        # The file that defines a constant and needs another framework; otherwise nil.
        #: (String) -> String?
        def mixed_home(constant) = definitions(constant).find { |_, text| text.match?(FOREIGN) }&.first

        private

        # Files that define a constant: {"karafka.rb" => text}
        def definitions(constant)
          *modules, last = constant.split("::")
          pattern = /^\s*(?:(?:class|module)\s+(?:\w+::)*#{last}\b|#{last}\s*=)/
          @texts.select do |name, text|
            name.end_with?(".rb") && text.match?(pattern) && modules.all? { |namespace| text.include?(namespace) }
          end
        end

        def names(path)
          return [File.basename(path)] unless File.directory?(path)

          Dir.glob(NAMES, base: path).grep_v(SKIPPED)
        end

        def read(name)
          path = File.join(@root, name)
          File.read(path, mode: "rb:bom|utf-8").scrub if File.file?(path)
        rescue SystemCallError => e
          @errors << "#{name}: #{e.message}"
          nil
        end

        def parse(name, text)
          CodeFile.new(name, text)
        rescue Source::Invalid => e
          @errors << e.message
          nil
        end
      end
    end
  end
end
