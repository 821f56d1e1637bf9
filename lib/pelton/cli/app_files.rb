# frozen_string_literal: true

module Pelton
  class CLI
    # Loads the files that make up an app: those that `-r` names, or, without any, config/environment.rb of the Rails
    # app in the current folder.
    module AppFiles
      RAILS = "config/environment.rb"
      private_constant :RAILS

      # Returns the files that it loaded. Raises what they raise, and LoadError.
      #: (Array[String]) -> Array[String]
      def self.load(files)
        files = [RAILS] if files.empty? && rails?(RAILS)
        files.map { |file| File.expand_path(file) }.each do |file|
          prepare_rails(File.dirname(file)) if rails?(file)
          require file
        end
      end

      # Rails is about to load. It would not load Pelton's railtie, because Pelton is loaded already.
      def self.prepare_rails(folder)
        boot = File.join(folder, "boot.rb") # selects the gems
        require boot if File.exist?(boot)
        require "rails"
        require_relative "../railtie"
      end
      private_class_method :prepare_rails

      def self.rails?(file)
        File.basename(file) == "environment.rb" && File.exist?(file) &&
          File.exist?(File.join(File.dirname(file), "application.rb"))
      end
      private_class_method :rails?
    end
  end
end
