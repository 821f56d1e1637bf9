# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/library_code"

module Pelton
  class CLI
    # Loads the files that make up an app: those that `-r` names, or, without any, config/environment.rb of the Rails
    # app in the current folder.
    module AppFiles
      RAILS = "config/environment.rb"
      LATE = "loads a Rails app, which then runs without Pelton's railtie: name its config/environment.rb instead"
      private_constant :RAILS, :LATE

      # Returns the files that it loaded. Raises what they raise, LoadError and ConfigError.
      #: (Array[String]) -> Array[String]
      def self.load(files)
        files = [RAILS] if files.empty? && rails?(RAILS)
        files.map { |file| File.expand_path(file) }.each do |file|
          prepare_rails(File.dirname(file)) if rails?(file)
          run(file)
          raise ConfigError.new("-r", file, LATE) if without_railtie?
        end
      end

      # An error of a setting or a route gets the line that caused it.
      def self.run(file)
        require file
      rescue ConfigError => e
        location = LibraryCode.own_location(e.backtrace)
        raise e, "#{e.message} (#{location})" if location

        raise
      end
      private_class_method :run

      # Rails is about to load. It would not load Pelton's railtie, because Pelton is loaded already.
      def self.prepare_rails(folder)
        boot = File.join(folder, "boot.rb") # selects the gems
        require boot if File.exist?(boot)
        require "rails"
        require_relative "../railtie"
      end
      private_class_method :prepare_rails

      # Also without ".rb".
      def self.rails?(file)
        %w[environment environment.rb].include?(File.basename(file)) &&
          %w[environment.rb application.rb].all? { |name| File.exist?(File.join(File.dirname(file), name)) }
      end
      private_class_method :rails?

      def self.without_railtie?
        defined?(::Rails.application) && ::Rails.application && !Pelton.const_defined?(:Railtie, false)
      end
      private_class_method :without_railtie?
    end
  end
end
