# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  # Settings of one table, with a reader and a writer for each: a value is checked when it is set.
  #   class Polling < Section
  #     settings Settings::POLLING
  #   end
  class Section
    #: (Settings::Table) -> void
    def self.settings(table)
      define_method(:table) { table }
      private :table
      table.names.each do |name|
        define_method(name) { @values.fetch(name) }
        define_method(:"#{name}=") { |value| set(name, value) }
      end
    end
    private_class_method :settings

    def initialize
      # {concurrency: 5, …}, one entry for each setting
      @values = table.defaults
      # [:concurrency, …]: names of settings that later calls do not change.
      @overridden = []
      # The call that froze the settings: "`producer_pool` in app/pool.rb:3"; nil: not frozen, or unknown.
      @frozen_by = nil
    end

    # A copy is not frozen.
    def initialize_copy(original)
      super
      @values = @values.dup
      @overridden = @overridden.dup
      @frozen_by = nil
    end

    # Sets one setting by name. Raises ConfigError for an unknown name, a value that is not allowed, or a frozen config.
    #   config.set(:concurrency, 10)
    #: (Symbol | String, untyped) -> untyped
    def set(name, value)
      setting = table.fetch(name.to_sym)
      checked = setting.check(value)
      raise ConfigError.new("#{table.prefix}#{name}", checked, frozen_reason) if frozen?

      @values[setting.name] = checked unless @overridden.include?(setting.name)
    end

    # Sets one setting and ignores later values for it, as the command line does. A later `set` still checks its value.
    #   config.override(:concurrency, 10)
    #: (Symbol | String, untyped) -> void
    def override(name, value)
      set(name, value)
      @overridden << name.to_sym
    end

    FROZEN = "configuration is frozen: set it before the first client opens (a producer, producer_pool, admin, each " \
             "or start)"
    private_constant :FROZEN

    # by: the call that freezes, for the message of a later `set`.
    #: (?String?) -> self
    def freeze(by = nil)
      @frozen_by ||= by unless frozen?
      @values.freeze
      super()
    end

    # All settings with their values.
    #   config.to_h # => { concurrency: 5, … }
    #: () -> Hash[Symbol, untyped]
    def to_h = @values.dup

    def inspect = "#<#{self.class} #{to_h.inspect}>"

    private

    def frozen_reason
      return FROZEN unless @frozen_by

      "configuration is frozen since the call of #{@frozen_by}: set it before that line"
    end

    # Names of groups of settings.
    def groups = []
    def respond_to_missing?(_name, _private = false) = false

    # Also for a reader, as in `config.pause.timeout = 1`. Methods such as `to_ary` are none.
    def method_missing(name, *arguments)
      setting = name.end_with?("=") ? arguments.size == 1 : arguments.empty? && name.match?(/\A(?!to_)[a-z]\w*\z/)
      raise table.unknown(name.to_s.chomp("="), groups) if setting

      super
    end
  end
end
