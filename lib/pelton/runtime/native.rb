# frozen_string_literal: true

require "rbconfig"
require_relative "../version"
require_relative "../errors"
require_relative "../decoding/json"
require_relative "../decoding/deserializing"
require_relative "../message"
require_relative "../batch"
require_relative "../delivery"
require_relative "fibers"

# Loads the native extension of this Ruby: lib/pelton/<major.minor>/pelton.so. It defines Pelton::Native and
# Pelton::Delivery, and fills Pelton::Message and Pelton::Batch, whose Ruby parts are loaded above.
abi = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
begin
  require_relative "../#{abi}/pelton"
rescue LoadError => e
  folder = File.dirname(__dir__)
  path = File.join(folder, abi, "pelton.#{RbConfig::CONFIG["DLEXT"]}")
  built = Dir.glob(File.join(folder, "*.*", "pelton.*")).map { |file| File.basename(File.dirname(file)) }.sort
  state = if File.exist?(path) then "#{path} cannot be loaded (#{e.message})"
          elsif built.empty? then "it has not been built"
          else "it is built for Ruby #{built.join(", ")} only"
          end
  raise LoadError, "pelton: no native extension for this Ruby #{RUBY_VERSION} (ABI #{abi}): #{state}. " \
                   "Install the gem that compiles for this Ruby: `gem install pelton --platform ruby`, or " \
                   "`gem \"pelton\", force_ruby_platform: true` in a Gemfile. " \
                   "In a clone, build it: RUBY=#{RbConfig.ruby} bin/setup"
end

module Pelton
  module Native
    # The native module of a client: the given one, otherwise this one. In tests, pelton/testing/session changes that.
    #: (Module?) -> Module
    def self.for(given) = given || self
  end

  # A MessagePack value of an extension type that nothing decodes: a Struct, which the native extension makes.
  class ExtensionValue
    # @!method type
    #   The number of the extension type, from -128 to 127.
    #     value.type # => 1
    #: def type: () -> Integer

    # @!method payload
    #   The bytes of the value, a binary String.
    #     value.payload # => "\x05"
    #: def payload: () -> String
  end
end
